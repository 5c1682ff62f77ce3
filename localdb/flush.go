package localdb

import (
	"time"

	"github.com/weirgate/weir/limit"
)

// flushAll saves what changed, twice a second, until Close.
func (s *Store) flushAll() {
	defer close(s.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.flush()
		case <-s.stop:
			s.flush()
			return
		}
	}
}

// flush saves what changed since the last time. What cannot be saved stays to be saved.
func (s *Store) flush() {
	s.saving.Lock()
	defer s.saving.Unlock()
	now := limit.Nanos(time.Now())
	s.expire(now)
	s.mu.Lock()
	changed := s.dirty
	s.dirty = nil
	s.mu.Unlock()
	if len(changed) == 0 {
		return
	}
	err := s.db.SaveQuotas(now, s.snapshot(changed))
	if err != nil {
		s.restore(changed)
	}
	switch was := s.failed; {
	case err != nil && was == nil:
		s.log.Warn("quota counts are not saved: a restart would lose them", "error", err)
	case err == nil && was != nil:
		s.log.Info("quota counts are saved again")
	}
	s.failed = err
}

// lockStep is how many counters are looked at under one lock.
const lockStep = 256

// snapshot returns what is to be written of changed, in short steps.
func (s *Store) snapshot(changed []*count) []Quota {
	quotas := make([]Quota, 0, len(changed))
	s.steps(changed, func(c *count) {
		c.isDirty = false
		quotas = append(quotas, Quota{Key: []byte(c.key), Until: c.until, Last: c.state.Last, Used: c.state.Used})
	})
	return quotas
}

// restore has changed saved the next time.
func (s *Store) restore(changed []*count) { s.steps(changed, s.touch) }

func (s *Store) steps(counts []*count, f func(*count)) {
	for len(counts) > 0 {
		n := min(lockStep, len(counts))
		s.mu.Lock()
		for _, c := range counts[:n] {
			f(c)
		}
		s.mu.Unlock()
		counts = counts[n:]
	}
}

// expire forgets some of the counters whose period is over.
func (s *Store) expire(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for key, c := range s.counts { // begins anywhere
		if c.until < now && !c.isDirty || c.state.Used == 0 && !c.isDirty {
			delete(s.counts, key)
		}
		if n++; n == lockStep {
			return
		}
	}
}
