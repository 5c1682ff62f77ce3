package apikey

import (
	"crypto/subtle"
	"encoding/hex"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A mirror is what a process knows of a database: the hashes of all keys that are not revoked. It is safe for
// concurrent use but for apply, which one caller at a time may call.
type mirror struct {
	pepper  pepper
	changes int64 // how far it is
	shards  [shards]shard
	held    map[string][]sum // by id; apply's own
}

// shards is how many parts a mirror has, so that requests and changes hardly meet.
const shards = 64

type shard struct {
	mu      sync.RWMutex
	entries map[place]*entry
}

// A place is where the entry of a sum is: its first half, which is unlike that of any other in a database.
type place [16]byte

// An entry is one secret of a key.
type entry struct {
	sum    sum
	until  int64 // Unix nanoseconds from which on it is not good
	id     string
	plan   string
	scopes []string
	noted  atomic.Int64 // Unix second at which its last use was noted
}

func newMirror(p pepper) *mirror {
	m := &mirror{pepper: p, held: map[string][]sum{}}
	for i := range m.shards {
		m.shards[i].entries = map[place]*entry{}
	}
	return m
}

// nobody is compared with where there is no entry. It is the sum of nothing that anybody could write.
var nobody = &entry{}

// find returns the entry of a text of a key's length, or nil, in a time that does not tell how much is right.
func (m *mirror) find(text string) *entry {
	is := m.pepper.sum(text)
	s := &m.shards[is[0]%shards]
	s.mu.RLock()
	e := s.entries[place(is[:])]
	s.mu.RUnlock()
	if e == nil {
		e = nobody
	}
	if subtle.ConstantTimeCompare(e.sum[:], is[:]) == 0 {
		return nil
	}
	return e
}

// apply takes over what has become of a key, and reports whether there was room for it.
func (m *mirror) apply(c *changed) bool {
	for _, s := range m.held[c.ID] {
		m.set(s, nil)
	}
	delete(m.held, c.ID)
	if !c.Revoked.IsZero() {
		return true
	}
	if len(m.held) >= MostKeys {
		return false
	}
	until := ends(c.Expires)
	sums := m.add(nil, c, c.hash, until)
	if !c.OldUntil.IsZero() {
		sums = m.add(sums, c, c.oldHash, min(until, c.OldUntil.UnixNano()))
	}
	m.held[c.ID] = sums
	return true
}

// add adds the entry of a hash, if it is one.
func (m *mirror) add(sums []sum, c *changed, hash string, until int64) []sum {
	var s sum
	if len(hash) != hex.EncodedLen(len(s)) {
		return sums
	}
	if _, err := hex.Decode(s[:], []byte(hash)); err != nil {
		return sums
	}
	e := &entry{sum: s, until: until, id: c.ID, plan: c.Plan, scopes: c.Scopes}
	e.noted.Store(unix(c.LastUsed))
	m.set(s, e)
	return append(sums, s)
}

// set puts e in the place of s; nil leaves it empty.
func (m *mirror) set(s sum, e *entry) {
	part := &m.shards[s[0]%shards]
	part.mu.Lock()
	defer part.mu.Unlock()
	if e == nil {
		delete(part.entries, place(s[:]))
		return
	}
	part.entries[place(s[:])] = e
}

// each calls f with every entry.
func (m *mirror) each(f func(*entry)) {
	for i := range m.shards {
		part := &m.shards[i]
		part.mu.RLock()
		for _, e := range part.entries {
			f(e)
		}
		part.mu.RUnlock()
	}
}

func ends(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixNano()
}
