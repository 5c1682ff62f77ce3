package redis

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// An op is what is to be done with a counter. The script knows them by number, as it does algorithms.
type op int64

const (
	opTake op = iota
	opPeek
	opRelease
	opRefund
	opReset
)

var opNames = [...]string{"take", "peek", "release", "refund", "reset"}

// A call is what one counter is asked for.
type call struct {
	op    op
	limit *weir.Limit
	key   string
	n     int64
	lease string // of a Concurrency limit
	at    int64  // opRefund: the server's time of the charge, in microseconds
	last  bool   // of its request

	expires time.Duration // opRelease: when what is owed is given back by itself; 0 where it is not owed
}

// withLease reports whether the script is told c's lease, and withTime whether it is told c's time.
func (c *call) withLease() bool { return c.limit.Algorithm == weir.Concurrency }
func (c *call) withTime() bool  { return c.op == opRefund && !c.withLease() }

// A job is what one caller waits for: requests whose counters share a slot, or any on one server.
type job struct {
	calls []call
	slot  int  // of its first counter; only known where there are several servers
	shape int  // which of the batch's shapes it has
	owed  bool // it is sent even if nobody waits for it any more

	// What became of it, once it is done: an error, or an answer to each call, and the server's time.
	err        error
	answers    []answer
	room       [1]answer // memory for answers
	now        int64
	sent, came time.Duration // since the store began

	state atomic.Uint32 // of the states below
	done  chan struct{} // holds one; told when it is done, unless its own caller sent it
}

const (
	waiting uint32 = iota
	finished
	abandoned // its caller gave up
)

func newJob(size int) *job {
	return &job{calls: make([]call, 0, size), done: make(chan struct{}, 1)}
}

// mostCost is the greatest number that the script is told of a cost or a limit. No limit is as high.
const mostCost = 1 << 51

// add appends a call for each of hits, as one request.
func (s *Store) add(j *job, o op, hits []weir.Hit) {
	for i := range hits {
		h := &hits[i]
		c := call{op: o, limit: h.Limit, key: counterKey(s.prefix, h), n: min(max(h.N, 0), mostCost), last: i == len(hits)-1}
		if o == opTake && c.withLease() {
			c.lease = s.leases.name()
		}
		j.calls = append(j.calls, c)
	}
}

// again makes a job that was not executed ready to be sent once more.
func (j *job) again() {
	j.err = nil
	j.state.Store(waiting)
}

// oneSlot reports whether all counters share a slot, which it notes.
func (j *job) oneSlot() bool {
	j.slot = slot(j.calls[0].key)
	for i := 1; i < len(j.calls); i++ {
		if j.calls[i].key != j.calls[0].key && slot(j.calls[i].key) != j.slot {
			return false
		}
	}
	return true
}

// status fills out with the answer to the i-th call.
func (j *job) status(i int, out *weir.Status) {
	a := &j.answers[i]
	*out = weir.Status{Limit: j.calls[i].limit, Allowed: a.retry == 0, Remaining: a.left, ResetAfter: span(a.reset), RetryAfter: span(a.retry)}
}

// An answer is the script's to one call; a retry of 0 says that it passes.
type answer struct{ left, reset, retry int64 }

// forever is the script's word for a time that does not end.
const forever = 1<<53 - 1

// span is a time that the script told in microseconds.
func span(us int64) time.Duration {
	switch {
	case us < 0:
		return weir.Never
	case us >= forever || us > math.MaxInt64/1000:
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// bounds are where the periods of a quota begin and end, in microseconds: the one before the one that
// holds now, that one, and the one after. Of these the server's clock chooses.
func bounds(l *weir.Limit, now time.Time) [4]int64 {
	start, end, next := limit.Bounds(l, limit.Nanos(now))
	before, _, _ := limit.Bounds(l, max(0, start-1))
	return [4]int64{before / 1000, start / 1000, end / 1000, next / 1000}
}
