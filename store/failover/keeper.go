package failover

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirgate/weir"
)

// probePatience is how long a probe may take: it may have to connect first.
const probePatience = time.Second

// rouse tells the keeper that the breaker is open or something is owed.
func (s *Store) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// keep is the one goroutine that tries the shared store while the breaker is open, so there is never
// more than one probe. When the store answers it gives back what is owed.
func (s *Store) keep() {
	defer close(s.kept)
	for s.sleep() {
		for s.breaker.open() || s.debts.any() {
			if !s.rest(s.options.ProbeEvery) {
				return
			}
			s.mend()
		}
	}
}

// sleep waits until there is something to do, and reports whether s is still in use.
func (s *Store) sleep() bool {
	select {
	case <-s.wake:
		return true
	case <-s.base.Done():
		return false
	}
}

func (s *Store) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.base.Done():
		return false
	}
}

func (s *Store) mend() {
	if s.breaker.open() {
		if err := s.probe(); err != nil {
			s.breaker.explain(err)
			return
		}
		s.breaker.mend(time.Now())
	}
	s.payDebts()
}

// probe reports why the shared store would not answer, or nil. It settles within twice its patience,
// whatever becomes of the probe. A first probe that took longer than a request would wait may have
// had to connect; the second may not.
func (s *Store) probe() error {
	for range 2 {
		began := time.Now()
		if err := s.probeOnce(began); err != nil {
			return err
		}
		if time.Since(began) <= s.options.Timeout {
			return nil
		}
	}
	return errTimeout
}

func (s *Store) probeOnce(began time.Time) error {
	wait := max(s.options.Timeout, probePatience)
	c := s.calls.Get().(*call)
	c.fill(doProbe, began, nil)
	c.ctx = &patience{deadline: began.Add(wait)}
	if err := s.await(s.base, c, wait); err != nil {
		return err
	}
	err := c.err
	s.recycle(c)
	return err
}

// probeByCharge charges a counter that nobody else uses: what a request does.
func (s *Store) probeByCharge(ctx context.Context) error {
	const key = "{weir}:probe:fixed_window:1s:"
	l := &weir.Limit{Name: "probe", Algorithm: weir.FixedWindow, Max: math.MaxInt32, Window: time.Second}
	hits := []weir.Hit{{Limit: l, Key: []byte(key), TagLen: len("{weir}"), N: 1}}
	if err := s.shared.Take(ctx, time.Now(), hits, make([]weir.Status, 1)); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}
