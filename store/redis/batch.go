package redis

import (
	"cmp"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"slices"

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
	args    []any
	ints    []int64
	limits  []ruled
	shapes  []*job           // one of each
	indexes []int64          // of the calls' counters, counted from 1
	keys    map[string]int64 // their indexes, counted from 1; only where there are several calls
}

// A ruled is a limit and what is to be done with its counters: the script is told each once.
type ruled struct {
	limit *weir.Limit
	op    op
}

const firstKey = 3 // after the command, the script and the number of keys

// The kinds of a batch, which the script knows by number.
const (
	plain = iota // each request asks new counters, at a cost of 1
	coded        // each hit is told apart
	rare         // so, and not all is taking from or looking at counters that are strings
)

// build makes the arguments for jobs, which it may put into another order: those that ask the same
// limits stand together. now is the time to go by in place of the server's, unless it is empty.
func (b *batch) build(s *Store, jobs []*job, now string) {
	b.args = append(b.args[:0], "evalsha", s.hash, nil)
	b.ints, b.limits = b.ints[:0], b.limits[:0]
	kind := b.sort(jobs)
	if distinct := b.names(jobs); !distinct {
		kind = max(kind, coded)
	}
	b.args[firstKey-1] = b.int(int64(len(b.args) - firstKey))
	b.args = append(b.args, now)
	if kind == plain {
		b.plain(s, jobs)
	} else {
		b.coded(s, jobs, kind)
	}
}

// sort puts jobs that ask the same limits together, and returns what kind of batch they are if no two
// ask one counter.
func (b *batch) sort(jobs []*job) (kind int64) {
	b.shapes = b.shapes[:0]
	for _, j := range jobs {
		if kind = max(kind, j.kind()); kind == plain {
			j.shape = b.shape(j)
		}
	}
	if kind == plain && len(b.shapes) > 1 {
		slices.SortStableFunc(jobs, func(x, y *job) int { return cmp.Compare(x.shape, y.shape) })
	}
	clear(b.shapes)
	return kind
}

// shape is which of the shapes that were seen j has: what limits it asks, in their order.
func (b *batch) shape(j *job) int {
	for i, other := range b.shapes {
		if other.asksLike(j) {
			return i
		}
	}
	b.shapes = append(b.shapes, j)
	return len(b.shapes) - 1
}

func (j *job) asksLike(other *job) bool {
	if len(j.calls) != len(other.calls) {
		return false
	}
	for i := range j.calls {
		if a, b := &j.calls[i], &other.calls[i]; a.limit != b.limit || a.op != b.op {
			return false
		}
	}
	return true
}

// kind is the least kind of batch that j may be in.
func (j *job) kind() (kind int64) {
	for i := range j.calls {
		c := &j.calls[i]
		switch {
		case c.op > opPeek || c.limit.Algorithm == weir.SlidingLog || c.withLease():
			return rare
		case c.n != 1 || c.last != (i == len(j.calls)-1): // a cost, or several requests
			kind = coded
		}
	}
	return kind
}

// plain tells the script of jobs, those of one shape after those of another.
func (b *batch) plain(s *Store, jobs []*job) {
	for from, i := 0, 1; i <= len(jobs); i++ {
		if i < len(jobs) && jobs[i].shape == jobs[from].shape {
			continue
		}
		b.numbers(int64(len(jobs[from].calls))<<2 + plain)
		for k := range jobs[from].calls {
			b.rule(s, &jobs[from].calls[k])
		}
		if i < len(jobs) {
			b.numbers(int64(i - from))
		}
		from = i
	}
}

// coded tells the script of each limit, and then of each hit.
func (b *batch) coded(s *Store, jobs []*job, kind int64) {
	b.args = append(b.args, nil)
	count := len(b.args) - 1
	for _, j := range jobs {
		for i := range j.calls {
			if c := &j.calls[i]; b.index(c) == 0 {
				b.rule(s, c)
			}
		}
	}
	b.args[count] = b.int(int64(len(b.limits))<<2 + kind)
	next := 0
	for _, j := range jobs {
		for i := range j.calls {
			b.call(&j.calls[i], b.indexes[next])
			next++
		}
	}
}

// names names the counters, each once, and reports whether no two calls are on one.
func (b *batch) names(jobs []*job) (distinct bool) {
	b.indexes = b.indexes[:0]
	if len(jobs) == 1 && len(jobs[0].calls) == 1 {
		b.args, b.indexes = append(b.args, &jobs[0].calls[0].key), append(b.indexes, 1)
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
			b.indexes, distinct = append(b.indexes, k), distinct && !known
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

// call tells the script of one hit, on a counter of that index.
func (b *batch) call(c *call, index int64) {
	code := (index<<16 + b.index(c)) * 2
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
