// Package storetest is what every store must do: [Run] checks it on any of them, in this process or
// over a network, with a clock of the test's or of its own.
package storetest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// A Store is all that a store can do.
type Store interface {
	weir.Store
	weir.Peeker
	weir.Releaser
	weir.Resetter
}

// A Subject is a store under test and its time.
type Subject struct {
	Store Store
	// Now is what the suite passes to the store. Where the store goes by a clock of its own, it is
	// that clock's time, as near as can be.
	Now func() time.Time
	// Advance lets d pass: by moving Now, or by waiting.
	Advance func(d time.Duration)
	// Window is the window of the limits that are waited for: long, or where the suite really waits
	// some hundred milliseconds.
	Window time.Duration
	// Exact is set where only Advance moves the time, so that answers are to the nanosecond.
	Exact bool
}

// Run checks what every store promises. It calls open once for each promise; a store may be shared
// between calls, for no two use a key in common.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, promise := range []struct {
		name  string
		check func(*suite)
	}{
		{"exactly N pass", exactlyN},
		{"waiting as told passes", waiting},
		{"a refusal changes nothing", refusalChangesNothing},
		{"a look costs nothing", looks},
		{"a cost over the limit never passes", costOverLimit},
		{"nothing passes 0", nothingPasses0},
		{"a new max keeps the count", newMax},
		{"keys are apart", keysApart},
		{"peek answers as take and charges nothing", peeks},
		{"reset forgets", resets},
		{"all or nothing", allOrNothing},
		{"several are told the truth", severalStatuses},
		{"a shadow over its limit is not charged", shadowOver},
		{"a refusal does not charge shadows", refusalSparesShadows},
		{"one counter twice in a request", oneCounterTwice},
		{"many hits", manyHits},
		{"release gives back once", releaseOnce},
		{"what was refused holds nothing", refusedHoldsNothing},
		{"reset lets go of leases", resetLeases},
		{"exactly N in parallel", parallel},
		{"crossing requests", crossing},
		{"in flight in parallel", parallelInFlight},
	} {
		t.Run(promise.name, func(t *testing.T) {
			s := open(t)
			// No two runs share a key, even in a store that outlives them.
			promise.check(&suite{T: t, Subject: s, tag: t.Name() + strconv.FormatInt(time.Now().UnixNano(), 36)})
		})
	}
}

// A suite is the check of one promise.
type suite struct {
	*testing.T
	Subject
	tag    string // what all keys of this check begin with
	leases uint64
}

// hit is a hit of n on the counter of that name. All counters of a check share a slot.
func (s *suite) hit(l *weir.Limit, name string, n int64) weir.Hit {
	s.leases++
	return weir.Hit{Limit: l, Key: []byte(s.tag + "\x00" + name), TagLen: len(s.tag), N: n, Lease: s.leases}
}

// take charges hits as one request.
func (s *suite) take(hits ...weir.Hit) []weir.Status {
	s.Helper()
	out := make([]weir.Status, len(hits))
	if err := s.Store.Take(context.Background(), s.Now(), hits, out); err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *suite) peek(hits ...weir.Hit) []weir.Status {
	s.Helper()
	out := make([]weir.Status, len(hits))
	if err := s.Store.Peek(context.Background(), s.Now(), hits, out); err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *suite) release(hits ...weir.Hit) {
	s.Helper()
	if err := s.Store.Release(context.Background(), s.Now(), hits); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) reset(hits ...weir.Hit) {
	s.Helper()
	if err := s.Store.Reset(context.Background(), hits); err != nil {
		s.Fatal(err)
	}
}

// one is take of a single hit.
func (s *suite) one(l *weir.Limit, name string, n int64) weir.Status {
	s.Helper()
	return s.take(s.hit(l, name, n))[0]
}

// An answer is the part of a status that does not change while a test runs.
type answer struct {
	OK    bool
	Left  int64
	Never bool
}

func answers(out []weir.Status) []answer {
	var as []answer
	for _, st := range out {
		as = append(as, answer{st.Allowed, st.Remaining, st.RetryAfter == weir.Never})
	}
	return as
}

// want compares answers, and checks what holds of every status.
func (s *suite) want(what string, got []weir.Status, want ...answer) {
	s.Helper()
	if d := cmp.Diff(want, answers(got)); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
	for _, st := range got {
		if st.Allowed != (st.RetryAfter == 0) || st.ResetAfter < 0 || st.Limit == nil || st.Degraded {
			s.Errorf("%s: %+v is no true status", what, st)
		}
	}
}

// equal compares whole statuses where time stands still, else answers.
func (s *suite) equal(what string, got, want []weir.Status) {
	s.Helper()
	if !s.Exact {
		s.want(what, got, answers(want)...)
	} else if d := cmp.Diff(want, got); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// begin lets the next window of w begin.
func (s *suite) begin(w time.Duration) {
	now := s.Now()
	s.Advance(now.Truncate(w).Add(w).Sub(now))
}

// every is a limit of most for each algorithm, over w where it has a window.
func every(most int64, w time.Duration) []*weir.Limit {
	return append(windowed(most, w),
		&weir.Limit{Algorithm: weir.Quota, Max: most, Period: weir.Month},
		&weir.Limit{Algorithm: weir.Concurrency, Max: most})
}

// windowed is a limit of most over w for each algorithm that has a window.
func windowed(most int64, w time.Duration) []*weir.Limit {
	return []*weir.Limit{
		{Algorithm: weir.SlidingWindow, Max: most, Window: w},
		{Algorithm: weir.SlidingLog, Max: most, Window: w},
		{Algorithm: weir.FixedWindow, Max: most, Window: w},
		{Algorithm: weir.TokenBucket, Max: most, Burst: most, Window: w},
	}
}

// long is a window that does not turn and a bucket that does not refill while a test runs.
const long = 24 * time.Hour
