package limiters

import (
	"context"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/store/memory"
)

const (
	weirName   = "Weir, clock read" // for each decision, as Weir's engine does
	passedName = "Weir, now passed in"
	wallName   = "Weir, time.Now read" // as most peers do
	nothing    = "nothing but the key" // what the reading of keys costs
)

// maxKeys has room for the keys that are measured with.
const maxKeys = 2 * manyKeys

func ours() []limiter {
	return []limiter{
		{name: weirName, open: memoryStore(engine.Clock()), expires: true},
		{name: passedName, open: func(o options) func() take {
			now := time.Now()
			return memoryStore(func() time.Time { return now })(o)
		}},
		{name: wallName, open: memoryStore(time.Now)},
		{name: nothing, open: func(options) func() take {
			return func() take {
				sum := 0
				return func(key string) bool { sum += len(key) + int(key[len(key)-1]); return sum != 1 }
			}
		}},
	}
}

func memoryStore(now func() time.Time) func(options) func() take {
	return func(o options) func() take {
		s := memory.New(memory.Options{MaxKeys: maxKeys})
		l := &weir.Limit{Name: "bench", Max: int64(o.limit()), Window: o.window}
		return func() take {
			hits, out := []weir.Hit{{Limit: l, N: 1}}, make([]weir.Status, 1)
			ctx, buf := context.Background(), make([]byte, 0, 64)
			return func(key string) bool {
				buf = append(buf[:0], key...)
				hits[0].Key = buf
				err := s.Take(ctx, now(), hits, out)
				return err == nil && out[0].Allowed
			}
		}
	}
}
