//go:build race

package envoyrls

// raceEnabled: the race detector slows all down, and lets sync.Pool drop what it is given.
const raceEnabled = true
