package apikey

import (
	"encoding/hex"
	"math"
	"sync/atomic"
	"time"
)

// A mirror is what a process knows of a database: the hashes of all keys that are not revoked. Any number of
// goroutines may look while one applies changes.
type mirror struct {
	pepper  pepper
	changes int64 // how far it is
	table   *table
	held    map[string][]sum // by id; apply's own
}

// An entry is one secret of a key.
type entry struct {
	sum    sum
	until  int64 // Unix nanoseconds from which on it is not good
	id     string
	plan   string
	scopes []string
	noted  atomic.Int64  // Unix second at which its last use was noted
	check  atomic.Uint64 // the key's last letters; 0: nobody has borne it yet
}

func newMirror(p pepper) *mirror {
	return &mirror{pepper: p, table: newTable(), held: map[string][]sum{}}
}

// find returns the entry of a text of a key's length, or nil, in a time that does not tell how much is right.
func (m *mirror) find(text string) *entry {
	is := m.pepper.sum(text)
	if e := m.table.find(&is); e != nil && e.isKeyOf(text) {
		return e
	}
	return nil
}

// apply takes over what has become of a key, and reports whether there was room for it.
func (m *mirror) apply(c *changed) bool {
	for _, s := range m.held[c.ID] {
		m.table.remove(&s)
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
	m.table.put(e)
	return append(sums, s)
}

func ends(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixNano()
}
