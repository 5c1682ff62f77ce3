package token

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

// A cache holds the tokens that were proved last, so that who asks again is known at the cost of reading his token
// once. It holds at most [mostCached] tokens of at most 8 KiB each, and only good ones: who forges tokens fills
// nothing. An entry is good for the key set by which it was proved, and until the token ends.
type cache struct {
	seed   maphash.Seed
	shards [shards]shard
}

const (
	shards     = 16
	mostCached = 16 * 1024
)

type shard struct {
	sync.RWMutex
	entries map[uint64]*entry
}

type entry struct {
	token string
	keys  *set
	who   *identity
}

func newCache() *cache {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].entries = map[uint64]*entry{}
	}
	return c
}

// find returns whom token was proved to be from by keys, or nil.
func (c *cache) find(token string, keys *set, now time.Time) *identity {
	sum := maphash.String(c.seed, token)
	s := &c.shards[sum%shards]
	s.RLock()
	e := s.entries[sum]
	s.RUnlock()
	if e == nil || e.keys != keys || e.token != token || !now.Before(e.who.until) {
		return nil
	}
	return e.who
}

// add notes that keys proved token.
func (c *cache) add(token string, keys *set, who *identity, now time.Time) {
	sum := maphash.String(c.seed, token)
	s := &c.shards[sum%shards]
	s.Lock()
	defer s.Unlock()
	if s.entries[sum] == nil && len(s.entries) >= mostCached/shards {
		s.evict(now)
	}
	s.entries[sum] = &entry{strings.Clone(token), keys, who} // the token may be a piece of something larger
}

// evict drops an entry that has ended, or of a few the one that ends first.
func (s *shard) evict(now time.Time) {
	const sample = 8
	var victim uint64
	var until time.Time
	n := 0
	for sum, e := range s.entries { // begins anywhere
		if n == 0 || e.who.until.Before(until) {
			victim, until = sum, e.who.until
		}
		if n++; n == sample || !now.Before(until) {
			break
		}
	}
	delete(s.entries, victim)
}
