package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"time"

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
	hits := b.names(jobs)
	b.args[firstKey-1] = b.int(int64(len(b.args) - firstKey))
	b.args = append(b.args, now, b.int(hits), nil)
	count := len(b.args) - 1
	for _, j := range jobs {
		for i := range j.calls {
			b.rule(s, &j.calls[i])
		}
	}
	b.args[count] = b.int(int64(len(b.limits)))
	for _, j := range jobs {
		for i := range j.calls {
			b.call(&j.calls[i])
		}
	}
}

// names names the counters, each once, and returns how many calls there are.
func (b *batch) names(jobs []*job) (hits int64) {
	if b.keys == nil {
		b.keys = map[string]int64{}
	}
	clear(b.keys)
	for _, j := range jobs {
		for i := range j.calls {
			c := &j.calls[i]
			if _, known := b.keys[c.key]; !known {
				b.keys[c.key] = int64(len(b.keys) + 1)
				b.args = append(b.args, &c.key)
			}
		}
		hits += int64(len(j.calls))
	}
	return hits
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

// rule tells the script of c's limit, unless it knows it.
func (b *batch) rule(s *Store, c *call) {
	if b.index(c) > 0 {
		return
	}
	b.limits = append(b.limits, ruled{c.limit, c.op})
	l := c.limit
	enforce, window := int64(0), max(l.Window, time.Microsecond)
	if l.Mode == weir.Enforce {
		enforce = 1
	}
	switch l.Algorithm {
	case weir.Concurrency:
		window = s.leases.term
	case weir.Quota:
		window = 0
	}
	b.numbers(int64(c.op), int64(l.Algorithm), enforce, min(l.Max, mostCost), window.Microseconds(), min(l.Burst, mostCost))
	if l.Algorithm == weir.Quota {
		at := bounds(l, s.wall())
		b.numbers(at[:]...)
	}
}

// call tells the script of one hit.
func (b *batch) call(c *call) {
	code := (b.keys[c.key]<<16 + b.index(c)) * 2
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
