package ban

import (
	"maps"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"

	"github.com/weirgate/weir"
)

// A table finds bans. It is never changed: what changes is put into another one, which shares most of it.
type table struct {
	networks *bart.Table[*weir.Ban]
	keys     map[string]*weir.Ban // by id
}

func newTable() *table { return &table{networks: new(bart.Table[*weir.Ban])} }

// find returns the ban that holds for c at now: that of its API key, else of the narrowest network around its
// address, or nil.
func (t *table) find(now time.Time, c *weir.Client) *weir.Ban {
	if c.APIKey != "" {
		if b := t.keys[c.APIKey]; b != nil && b.Holds(now) {
			return b
		}
	}
	if !c.Addr.IsValid() {
		return nil
	}
	b, ok := t.networks.Lookup(c.Addr)
	if !ok || b.Holds(now) {
		return b
	}
	return t.around(now, netip.PrefixFrom(c.Addr, c.Addr.BitLen()))
}

// around returns the ban that holds for the narrowest network around n, or nil.
func (t *table) around(now time.Time, n netip.Prefix) *weir.Ban {
	for _, b := range t.networks.Supernets(n) {
		if b.Holds(now) {
			return b
		}
	}
	return nil
}

// A change puts a ban in the place of what was known of a subject; nil: there is none.
type change struct {
	subject Subject
	ban     *weir.Ban
}

// with returns a table with changes. It copies the API keys, if there is one among them.
func (t *table) with(changes []change) *table {
	next := &table{t.networks, t.keys}
	copied := false
	for _, c := range changes {
		switch {
		case c.subject.Key != "":
			if !copied {
				next.keys, copied = maps.Clone(t.keys), true
			}
			next.putKey(c)
		case c.ban == nil:
			next.networks = next.networks.DeletePersist(c.subject.Network)
		default:
			next.networks = next.networks.InsertPersist(c.subject.Network, c.ban)
		}
	}
	return next
}

func (t *table) putKey(c change) {
	switch {
	case c.ban == nil:
		delete(t.keys, c.subject.Key)
	case t.keys == nil:
		t.keys = map[string]*weir.Ban{c.subject.Key: c.ban}
	default:
		t.keys[c.subject.Key] = c.ban
	}
}

// fill puts changes into t, which nobody reads yet.
func (t *table) fill(changes []change) {
	for _, c := range changes {
		if c.subject.Key != "" {
			t.putKey(c)
			continue
		}
		t.networks.Insert(c.subject.Network, c.ban)
	}
}
