// Package leaktest has the tests of a package end with no goroutine of theirs left.
package leaktest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirgate/weir/internal/proctest"
)

// Main runs the tests of a package, and then tidy, and ends the process: with a failure if a goroutine is left. What
// is about to end is waited for, as long as anything is that should come soon: on a busy machine that takes a while,
// and a dial of a client library ends up to a second after its client.
func Main(m *testing.M, tidy ...func()) {
	code := m.Run()
	for _, f := range tidy {
		f()
	}
	if code == 0 {
		code = judge(func() error { return goleak.Find() })
	}
	os.Exit(code)
}

// judge is the exit code by what is left in the end.
func judge(left func() error) int {
	if err := proctest.Await(proctest.Patience, left); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return 0
}
