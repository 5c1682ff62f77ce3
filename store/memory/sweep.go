package memory

import (
	"time"

	"github.com/weirgate/weir/limit"
)

const (
	sweepEvery = time.Second
	sweepParts = 32  // the shards are gone through in so many intervals
	sweepSlots = 256 // looked at under one lock
)

// idleness tells how long a shard has charged nothing: since the sweep first saw its latest charge.
type idleness struct {
	latest int64
	since  time.Time
}

// sweep forgets what has expired where no request comes by, and gives back its memory, until Close.
func (s *Store) sweep() {
	defer close(s.done)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for next := 0; ; next++ {
		select {
		case <-s.stop:
			return
		case wall := <-tick.C:
			for i := next % sweepParts; i < len(s.shards); i += sweepParts {
				s.shards[i].sweep(wall)
			}
		}
	}
}

// sweep goes through the whole shard in short steps.
func (s *shard) sweep(wall time.Time) {
	for left := s.sweepStep(wall, 0); left > 0; {
		left = s.sweepStep(wall, left)
	}
}

// sweepStep looks at the next few of the slots that are left, all if left is 0, and returns how many
// are left then.
func (s *shard) sweepStep(wall time.Time, left int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left == 0 {
		left = s.table.len()
	}
	s.expire(s.time(wall), min(left, sweepSlots))
	if left > sweepSlots {
		return left - sweepSlots
	}
	s.table.shrink()
	if len(s.logs) == 0 {
		s.logs = nil
	}
	if len(s.leases) == 0 {
		s.leases = nil
	}
	return 0
}

// time is the shard's time. It knows no clock but its callers', which may be a log's: from the
// latest charge it lets time run on.
func (s *shard) time(wall time.Time) int64 {
	if s.idle.since.IsZero() || s.idle.latest != s.latest {
		s.idle = idleness{latest: s.latest, since: wall}
	}
	return limit.Nanos(time.Unix(0, s.latest).Add(wall.Sub(s.idle.since)))
}
