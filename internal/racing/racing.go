// Package racing tells tests of the race detector, under which all takes ten times as long and twice the memory, and
// sync.Pool forgets at random, so that times and allocations say nothing.
package racing

import "testing"

// Skip skips a test that is one goroutine's work of many seconds under the race detector, which finds nothing in it,
// and where tests are to be short. It is the test's first line, by which `make test` finds the name and runs it without.
func Skip(t testing.TB) {
	t.Helper()
	if On || testing.Short() {
		t.Skip("one goroutine's work of many seconds under the race detector: run without")
	}
}
