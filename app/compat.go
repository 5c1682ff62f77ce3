package app

import (
	"github.com/weirgate/weir"
	"github.com/weirgate/weir/embedded/shared"
	"github.com/weirgate/weir/front/envoyrls"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/redis"
)

// A compat is where a store counts as envoyproxy/ratelimit does. All of it is nil where nobody asks for that.
type compat struct {
	memory   *envoyrls.Memory // in the place of Redis, or alone
	window   *redis.Window
	failover *failover.Store // before the window
}

// countAsRatelimit returns a store that counts as envoyproxy/ratelimit does: in Redis, with memory in its place while
// that is away, or in memory alone.
func (s *store) countAsRatelimit(o redis.WindowOptions, m envoyrls.MemoryOptions) weir.Store {
	s.compat.memory = envoyrls.NewMemory(m)
	if s.shared == nil {
		return s.compat.memory
	}
	s.compat.window, s.compat.failover = s.shared.Window(o, s.compat.memory)
	return s.compat.failover
}

// each calls f for s and what was opened beside it.
func (s *store) each(f func(*store)) {
	f(s)
	for _, other := range s.more {
		f(other)
	}
}

// failovers returns what stands before a shared store.
func (s *store) failovers() (all []*failover.Store) {
	s.each(func(s *store) {
		if s.shared != nil {
			all = append(all, s.shared.Store)
		}
		if s.compat.failover != nil {
			all = append(all, s.compat.failover)
		}
	})
	return all
}

// open reports whether a shared store is left alone because it failed.
func (s *store) open() bool {
	for _, f := range s.failovers() {
		if f.Open() {
			return true
		}
	}
	return false
}

// failures is how often a shared store did not answer, by why not.
func (s *store) failures() map[string]uint64 { return shared.Failures(s.failovers()...) }

// recalled is how many hits were refused from memory, without asking the shared store.
func (s *store) recalled() (n uint64) {
	s.each(func(s *store) {
		if s.shared != nil {
			n += s.shared.Recalled()
		}
		if s.compat.window != nil {
			n += s.compat.window.Recalled()
		}
	})
	return n
}

// keys is how many counters there are in memory.
func (s *store) keys() (n int) {
	s.each(func(s *store) {
		n += s.memory.Keys()
		if s.compat.memory != nil {
			n += s.compat.memory.Keys()
		}
	})
	return n
}

// evictions is how many counters in memory were forgotten for want of room.
func (s *store) evictions() (n uint64) {
	s.each(func(s *store) {
		n += s.memory.Evictions()
		if s.compat.memory != nil {
			n += s.compat.memory.Evictions()
		}
	})
	return n
}
