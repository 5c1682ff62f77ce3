package redis

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// clientKeys are keys as the policy makes them, of n clients.
func clientKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		addr := "10." + strconv.Itoa(i>>16) + "." + strconv.Itoa(i>>8&255) + "." + strconv.Itoa(i&255) + "/32"
		keys[i] = []byte("{" + addr + "}:search:sliding_window:1m0s:@" + addr)
	}
	return keys
}

// tagLength is how long the tag of one of clientKeys is.
func tagLength(key []byte) int { return slices.Index(key, '}') + 1 }

// measure calls ask b.N times from that many callers, and reports the percentiles of their waits and
// what a decision costs Redis.
func measure(b *testing.B, server *redistest.Server, callers int, ask func(i int)) {
	waits := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	cpu := server.CPU()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				began := time.Now()
				ask(i)
				waits[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64((server.CPU()-cpu).Nanoseconds())/1000/float64(b.N), "redis-µs/op")
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	keys := clientKeys(50_000)
	for _, hits := range []int{1, 3} {
		for _, callers := range []int{1, 64, 512} {
			b.Run(strconv.Itoa(hits)+"hits/"+strconv.Itoa(callers)+"callers", func(b *testing.B) {
				s := open(b, server.URL())
				var limits []*weir.Limit
				for i := range hits {
					limits = append(limits, &weir.Limit{Max: 1 << 30, Window: time.Duration(i+1) * time.Minute})
				}
				measure(b, server, callers, func(i int) {
					var request [3]weir.Hit
					var out [3]weir.Status
					key := keys[i*7919%len(keys)]
					for k, l := range limits {
						request[k] = weir.Hit{Limit: l, Key: append(key[:len(key):len(key)], byte('0'+k)), TagLen: tagLength(key), N: 1}
					}
					if err := s.Take(context.Background(), time.Time{}, request[:hits], out[:]); err != nil {
						b.Error(err)
					}
				})
			})
		}
	}
}

// BenchmarkPlainEval is what there was before: each caller's EVALSHA for itself, of a script that is as
// short as it can be, and of ours.
func BenchmarkPlainEval(b *testing.B) {
	server := redistest.Start(b)
	keys := clientKeys(50_000)
	const plain = `local c = tonumber(redis.call('GET', KEYS[1]) or '0')
if c >= tonumber(ARGV[1]) then return {0, c} end
c = redis.call('INCR', KEYS[1])
if c == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {1, c}`
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr, Protocol: 2})
	defer c.Close()
	sha := c.ScriptLoad(context.Background(), plain).Val()
	short := func(i int) error {
		return c.EvalSha(context.Background(), sha, []string{string(keys[i*7919%len(keys)])}, 1<<30, 60000).Err()
	}
	c.ScriptLoad(context.Background(), script)
	s, l := open(b, server.URL()), &weir.Limit{Max: 1 << 30, Window: time.Minute}
	ours := func(i int) error {
		key := keys[i*7919%len(keys)]
		j := newJob(1)
		s.add(j, opTake, []weir.Hit{{Limit: l, Key: key, TagLen: tagLength(key), N: 1}})
		var args batch
		args.build(s, []*job{j}, "")
		return c.Process(context.Background(), goredis.NewIntSliceCmd(context.Background(), args.args...))
	}
	for name, ask := range map[string]func(int) error{"short": short, "ours": ours} {
		for _, callers := range []int{1, 64} {
			b.Run(name+"/"+strconv.Itoa(callers)+"callers", func(b *testing.B) {
				measure(b, server, callers, func(i int) {
					if err := ask(i); err != nil {
						b.Error(err)
					}
				})
			})
		}
	}
}

// BenchmarkRefused is an attacker's hot key: answered from memory.
func BenchmarkRefused(b *testing.B) {
	server := redistest.Start(b)
	s := open(b, server.URL())
	l := &weir.Limit{Max: 10, Window: time.Hour}
	key := clientKeys(1)[0]
	before := server.Commands()
	b.RunParallel(func(p *testing.PB) {
		hits := []weir.Hit{{Limit: l, Key: key, TagLen: tagLength(key), N: 1}}
		out := make([]weir.Status, 1)
		for p.Next() {
			if err := s.Take(context.Background(), time.Time{}, hits, out); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(server.Commands()-before)/b.Elapsed().Seconds(), "commands/s")
}
