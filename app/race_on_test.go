//go:build race

package app

// raceEnabled: the race detector makes everything ten times slower.
const raceEnabled = true
