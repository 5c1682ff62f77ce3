//go:build !race

package soak_test

// raceFlags build the program as the tests are built: without the race detector.
var raceFlags []string
