//go:build race

package replay

// raceEnabled: the race detector has memory of its own, which a bound of ours says nothing about.
const raceEnabled = true
