package memory

import (
	"testing"
	"time"

	"github.com/weirgate/weir/store/storetest"
)

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{"many shards": {}, "one shard": {MaxKeys: 1000}} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Subject {
				now := time.Date(2027, 3, 5, 12, 0, 7, 123, time.UTC)
				return storetest.Subject{
					Store: open(t, o), Window: time.Minute, Exact: true,
					Now: func() time.Time { return now }, Advance: func(d time.Duration) { now = now.Add(d) },
				}
			})
		})
	}
}
