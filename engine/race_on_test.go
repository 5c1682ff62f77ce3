//go:build race

package engine_test

// raceEnabled: the race detector lets sync.Pool drop what it is given, so allocations say nothing.
const raceEnabled = true
