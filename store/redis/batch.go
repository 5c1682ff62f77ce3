package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"

	"github.com/weirgate/weir"
)

//go:embed weir.lua
var script string

// scriptHash names the script to a server that has seen it.
func scriptHash() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// A batch is the arguments of one call of the script. Numbers are passed by pointer, which the client
// library writes as text, and boxing which costs nothing.
type batch struct {
	args   []any
	ints   []int64
	limits []ruled
	keys   map[string]int64 // their indexes, counted from 1; only where there are several calls
}

// A ruled is a limit and what is to be done with its counters: the script is told each once.
type ruled struct {
	limit *weir.Limit
	op    op
}

const firstKey = 3 // after the command, the script and the number of keys

// build makes the arguments for jobs. now is the time to go by in place of the server's, unless it is
// empty.
func (b *batch) build(s *Store, jobs []*job, now string) {
	b.args = append(b.args[:0], "evalsha", s.hash, nil)
	b.ints, b.limits = b.ints[:0], b.limits[:0]
	plain := b.names(jobs) && isPlain(jobs)
	b.args[firstKey-1] = b.int(int64(len(b.args) - firstKey))
	b.args = append(b.args, now, nil)
	count := len(b.args) - 1
	if plain {
		for i := range jobs[0].calls {
			b.rule(s, &jobs[0].calls[i])
		}
		b.args[count] = b.int(int64(len(b.limits)))
		return
	}
	for _, j := range jobs {
		for i := range j.calls {
			if c := &j.calls[i]; b.index(c) == 0 {
				b.rule(s, c)
			}
		}
	}
	b.args[count] = b.int(-int64(len(b.limits)))
	for _, j := range jobs {
		for i := range j.calls {
			b.call(&j.calls[i])
		}
	}
}

// isPlain reports whether each of jobs is a request that asks, at a cost of 1, the same limits in the
// same order, all of which keep their counters in strings that are read and written whole.
func isPlain(jobs []*job) bool {
	first := jobs[0].calls
	for i := range first {
		if c := &first[i]; c.op > opPeek || c.limit.Algorithm == weir.SlidingLog || c.withLease() {
			return false
		}
	}
	for _, j := range jobs {
		if len(j.calls) != len(first) {
			return false
		}
		for i := range j.calls {
			if c := &j.calls[i]; c.limit != first[i].limit || c.op != first[i].op || c.n != 1 {
				return false
			}
		}
	}
	return true
}

// names names the counters, each once, and reports whether no two calls are on one.
func (b *batch) names(jobs []*job) (distinct bool) {
	if len(jobs) == 1 && len(jobs[0].calls) == 1 {
		b.args = append(b.args, &jobs[0].calls[0].key)
		jobs[0].calls[0].index = 1
		return true
	}
	if b.keys == nil {
		b.keys = map[string]int64{}
	}
	clear(b.keys)
	distinct = true
	for _, j := range jobs {
		for i := range j.calls {
			c := &j.calls[i]
			k, known := b.keys[c.key]
			if !known {
				k = int64(len(b.keys) + 1)
				b.keys[c.key] = k
				b.args = append(b.args, &c.key)
			}
			c.index, distinct = k, distinct && !known
		}
	}
	return distinct
}

// int returns v as an argument. A pointer stays good when b.ints moves.
func (b *batch) int(v int64) any {
	b.ints = append(b.ints, v)
	return &b.ints[len(b.ints)-1]
}

func (b *batch) numbers(vs ...int64) {
	for _, v := range vs {
		b.args = append(b.args, b.int(v))
	}
}

// index is where c's limit stands among b's, counted from 1, or 0.
func (b *batch) index(c *call) int64 {
	for i := range b.limits {
		if b.limits[i] == (ruled{c.limit, c.op}) {
			return int64(i + 1)
		}
	}
	return 0
}

// rule tells the script of c's limit.
func (b *batch) rule(s *Store, c *call) {
	b.limits = append(b.limits, ruled{c.limit, c.op})
	l := c.limit
	kind := (int64(c.op)<<3 + int64(l.Algorithm)) * 2
	if l.Mode == weir.Enforce {
		kind++
	}
	b.numbers(kind, min(l.Max, mostCost))
	if l.Algorithm == weir.Quota {
		at := bounds(l, s.wall())
		b.numbers(at[:]...)
		return
	}
	b.numbers(s.window(l))
	if l.Algorithm == weir.TokenBucket {
		b.numbers(min(l.Burst, mostCost))
	}
}

// window is a limit's window as the script knows it, in microseconds.
func (s *Store) window(l *weir.Limit) int64 {
	switch l.Algorithm {
	case weir.Concurrency:
		return s.leases.term.Microseconds()
	case weir.Quota:
		return 0
	}
	return max(1, l.Window.Microseconds())
}

// call tells the script of one hit.
func (b *batch) call(c *call) {
	code := (c.index<<16 + b.index(c)) * 2
	if c.last {
		code++
	}
	if c.n == 1 {
		b.numbers(code)
	} else {
		b.numbers(-code, c.n)
	}
	switch {
	case c.withLease():
		b.args = append(b.args, &c.lease)
	case c.withTime():
		b.numbers(c.at)
	}
}

// whole replaces the script's hash by the script.
func (b *batch) whole() {
	b.args[0], b.args[1] = "eval", script
}
