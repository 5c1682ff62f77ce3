// Package chain watches what arrives in the headers that name a client, and says when the picture
// that the configuration draws of the proxies cannot be right.
//
// A wrong picture is invisible in any single request: a number that is one too high resolves every
// honest request to nobody and every forged one to whom it likes. Over a few hundred requests it
// shows, in counts that fit into a few kilobytes: how long chains are, how much the addresses vary
// that should be a client's or a proxy's, and whether everyone has become one.
package chain

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

const (
	// Window is how long requests are counted together.
	Window = 5 * time.Minute
	// Enough is how many requests a window needs before anything is said of it.
	Enough = 200
)

// Config says what a monitor watches.
type Config struct {
	// Strategy is the field of the configuration by which clients are found: path, trusted_proxies,
	// from_right or header; empty if the client is the peer.
	Strategy string
	// FromRight is the position, for from_right.
	FromRight int
	// Listed are the items of path, trusted_proxies or peers as they are written there.
	Listed []string
	// KnownProxy returns the name of the CDN that an address belongs to, or "". Nil knows none.
	KnownProxy func(netip.Addr) string
	// Nearest returns the rightmost address of a request's chain, or the zero Addr. It is asked only
	// where FromRight is above 1. Nil finds none.
	Nearest func(*weir.Request) netip.Addr
}

// A Monitor watches the requests of one listener. Its memory does not grow. It is safe for
// concurrent use.
type Monitor struct {
	cfg  Config
	seed maphash.Seed

	mu      sync.Mutex
	current window
	before  uint8 // the entries that most chains of the last full window had; 0 if there was none
	held    []Finding
}

// A Finding is one thing that the last few hundred requests show.
type Finding struct {
	Code  weir.Codes // a single one
	Since time.Time  // when the window began that showed it first
	Text  string     // what is the matter, in an operator's words; clients' addresses are masked
	Edit  string     // the lines of configuration that mend it; empty where that is not sure, or mended elsewhere
}

// New returns a monitor that has seen nothing.
func New(cfg Config) *Monitor {
	if cfg.KnownProxy == nil {
		cfg.KnownProxy = func(netip.Addr) string { return "" }
	}
	if cfg.Nearest == nil {
		cfg.Nearest = func(*weir.Request) netip.Addr { return netip.Addr{} }
	}
	return &Monitor{cfg: cfg, seed: maphash.MakeSeed()}
}

// Add counts requests that were seen, the oldest first. It allocates nothing.
func (m *Monitor) Add(sights ...*Sight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range sights {
		m.turn(s.at)
		m.current.add(s)
	}
}

// Findings returns what is the matter at now, in the order of the codes. A window says nothing
// before it has seen [Enough] requests; until then what the last one said holds.
func (m *Monitor) Findings(now time.Time) []Finding {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	if m.current.requests < Enough {
		return append([]Finding(nil), m.held...)
	}
	return m.judge(&m.current)
}

// turn begins a new window if the current one is over. A clock that went back a little does not.
func (m *Monitor) turn(now time.Time) {
	if m.current.requests > 0 && now.Before(m.current.ends) {
		return
	}
	if m.current.requests >= Enough {
		m.held = m.judge(&m.current)
		m.before = m.current.usualEntries()
	}
	m.current = window{began: now, ends: now.Add(Window)}
}

// since returns when the finding of that code that is held began, or otherwise.
func (m *Monitor) since(code weir.Codes, otherwise time.Time) time.Time {
	for _, f := range m.held {
		if f.Code == code {
			return f.Since
		}
	}
	return otherwise
}
