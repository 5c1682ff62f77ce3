package waftest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/waf"
)

// CPU returns the time that this process has computed.
func CPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Resident returns how much memory this process has, in MB.
func Resident(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "VmRSS:")
	var kilobytes int
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}

// Cost sends every attack alone and 16 times at once, and fails if one comes out wrong, leaves more memory than the
// process may have, or, where times are judged, computes for longer than a request may.
func Cost(t *testing.T, w *waf.WAF, most time.Duration, megabytes int) {
	peak := 0
	for _, a := range Attacks(t) {
		var r weir.Inspection
		before := CPU(t)
		w.Inspect(t.Context(), &a.In, &r)
		took := CPU(t) - before
		t.Logf("%-40s %8v %v %s", a.Name, took.Round(100*time.Microsecond), r.Verdict, r.Refused)
		if took > timed.Bound(most) {
			t.Errorf("%s: computes for %v, want at most %v", a.Name, took, most)
		}
		if a.Want != weir.Uninspected && r.Verdict != a.Want && (a.Want != weir.Clean || r.Verdict != weir.Plain) {
			t.Errorf("%s: %v %s %v, want %v", a.Name, r.Verdict, r.Refused, r.Matches, a.Want)
		}
		atOnce(t, w, &a.In)
		peak = max(peak, Resident(t))
	}
	t.Logf("%d MB", peak)
	if peak > megabytes {
		t.Errorf("the process has %d MB, want at most %d", peak, megabytes)
	}
}

// atOnce has 16 askers.
func atOnce(t *testing.T, w *waf.WAF, in *waf.Input) {
	var asking sync.WaitGroup
	for range 16 {
		asking.Go(func() {
			var r weir.Inspection
			w.Inspect(t.Context(), in, &r)
		})
	}
	asking.Wait()
}
