package journal

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// One warning when evictions begin, at most one a minute while they go on, each with how many there
// were since the last, and none once they are over.
func TestEvictionsAreAlarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		var evictions atomic.Uint64
		j := New(Options{Log: book.logger(), Gauges: Gauges{MemoryEvictions: evictions.Load}})
		ctx, stop := context.WithCancel(t.Context())
		go j.Run(ctx)
		defer synctest.Wait()
		defer stop()
		told := func(want ...any) {
			t.Helper()
			synctest.Wait()
			var got []any
			for _, line := range book.lines(t) {
				if line["level"] != "WARN" || line["setting"] != "store.memory.max_keys" {
					t.Errorf("line %v, want a warning that names the setting", line)
				}
				got = append(got, line["evictions"])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("evictions told (-want +got):\n%s", diff)
			}
		}
		time.Sleep(time.Minute)
		told()
		evictions.Store(3)
		time.Sleep(diagnoseEvery)
		told(3.)
		for range int(evictionsEvery/diagnoseEvery) - 1 {
			evictions.Add(10)
			time.Sleep(diagnoseEvery)
		}
		told()
		time.Sleep(diagnoseEvery)
		told(50.)
		time.Sleep(time.Hour)
		told()
	})
}
