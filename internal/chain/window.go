package chain

import (
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/weirgate/weir"
)

// maxAgent is how much of a User-Agent tells it from others, in bytes.
const maxAgent = 256

// A Sight is what a monitor takes from one request.
type Sight struct {
	at      time.Time
	source  weir.Source
	codes   weir.Codes
	entries uint8
	peer    netip.Addr
	client  netip.Prefix
	left    netip.Addr

	clientHash, leftHash, agentHash, nearestHash, strayHash uint64

	private bool   // the client's address is
	proxy   string // the CDN that the client's address belongs to
	public  bool   // the left neighbour is
	nearest bool   // the rightmost entry is a public address of no known proxy
}

// See makes s what is to be seen of a request that was made at now and whose client was resolved. It waits for
// nobody, allocates nothing, and keeps nothing of the request.
func (m *Monitor) See(s *Sight, now time.Time, req *weir.Request, c *weir.Client) {
	*s = Sight{
		at: now, source: c.Source, codes: c.Chain.Codes, entries: min(c.Chain.Entries, weir.ManyEntries),
		peer: req.Peer, client: c.Prefix, left: c.Chain.Left,
		private: c.Chain.Codes&weir.ClientPrivate != 0,
	}
	s.clientHash = m.hash(c.Prefix.Addr())
	if c.Source == weir.Unresolved {
		s.clientHash = ^m.hash(c.Via)
	}
	if agents := req.Header["User-Agent"]; len(agents) > 0 {
		s.agentHash = maphash.String(m.seed, agents[0][:min(len(agents[0]), maxAgent)])
	}
	if s.codes&(weir.HeaderUnexpected|weir.PeerUntrustedWithHeader) != 0 && s.peer.IsValid() {
		s.strayHash = m.hash(s.peer)
	}
	if s.left.IsValid() {
		s.leftHash, s.public = m.hash(s.left), !local(s.left)
	}
	if c.Addr.IsValid() && !s.private {
		s.proxy = m.cfg.KnownProxy(c.Addr)
	}
	if m.cfg.FromRight > 1 {
		m.lookNearest(req, s)
	}
}

// lookNearest looks at the entry where the outermost proxy but one should stand.
func (m *Monitor) lookNearest(req *weir.Request, s *Sight) {
	a := m.cfg.Nearest(req)
	if a.IsValid() && !local(a) && m.cfg.KnownProxy(a) == "" {
		s.nearest, s.nearestHash = true, m.hash(a)
	}
}

func (m *Monitor) hash(a netip.Addr) uint64 {
	b := a.As16()
	return maphash.Bytes(m.seed, b[:])
}

// shared is the network of RFC 6598.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// local reports whether a is an address of no public network.
func local(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || shared.Contains(a)
}

// A window counts the requests of five minutes.
type window struct {
	began    time.Time
	requests int
	sources  [weir.Unresolved + 1]int
	codes    [32]int
	chains   int // requests whose chain was read
	agents   distinct
	clients  top
	strays   top // peers that sent headers which they may not
	lefts    distinct

	inner         int // clients with a private address, found in a header
	innerClients  distinct
	innerAgents   distinct
	low           int // clients that look like proxies, with a public left neighbour
	lowPrivate    int
	lowClients    distinct
	lowPeers      top // the same, by address
	lowLefts      distinct
	proxies       int // clients with a CDN's address
	proxyName     string
	nearest       distinct // public addresses where the nearest proxy's should be
	histogram     [weir.ManyEntries + 1]int
	block         block
	dominated     [weir.ManyEntries + 1]int // requests in blocks of which most had that many entries
	lastDominated uint8
	changedAt     time.Time
}

// add counts s.
func (w *window) add(s *Sight) {
	w.requests++
	w.sources[s.source]++
	for bits, i := s.codes, 0; bits != 0; bits, i = bits>>1, i+1 {
		w.codes[i] += int(bits & 1)
	}
	w.agents.add(s.agentHash)
	w.clients.add(s.clientHash, s.client)
	if s.strayHash != 0 {
		w.strays.add(s.strayHash, netip.PrefixFrom(s.peer, s.peer.BitLen()))
	}
	if s.left.IsValid() {
		w.lefts.add(s.leftHash)
	}
	if s.nearest {
		w.nearest.add(s.nearestHash)
	}
	w.addClass(s)
	w.addEntries(s.at, s.entries)
}

// addClass counts what kind of address was resolved.
func (w *window) addClass(s *Sight) {
	if s.proxy != "" {
		w.proxies++
		w.proxyName = s.proxy
	}
	if s.private && (s.source == weir.Forwarded || s.source == weir.FromHeader) {
		w.inner++
		w.innerClients.add(s.clientHash)
		w.innerAgents.add(s.agentHash)
	}
	if s.public && s.source == weir.Forwarded && (s.private || s.proxy != "") {
		w.low++
		w.lowClients.add(s.clientHash)
		w.lowPeers.add(s.clientHash, s.client)
		w.lowLefts.add(s.leftHash)
		if s.private {
			w.lowPrivate++
		}
	}
}

// blockSize is how many chains are looked at together to tell a change from a mixture.
const blockSize = 50

// A block counts the lengths of a few chains in a row.
type block struct {
	began   time.Time
	chains  int
	lengths [weir.ManyEntries + 1]int
}

// addEntries counts a chain's length.
func (w *window) addEntries(now time.Time, entries uint8) {
	if entries == 0 {
		return
	}
	w.chains++
	w.histogram[entries]++
	b := &w.block
	if b.chains == 0 {
		b.began = now
	}
	b.chains++
	b.lengths[entries]++
	if b.chains < blockSize {
		return
	}
	for length, n := range b.lengths {
		if n*5 >= blockSize*4 {
			w.dominate(uint8(length), b.began)
		}
	}
	*b = block{}
}

// dominate notes that a whole block was of one length.
func (w *window) dominate(length uint8, began time.Time) {
	if w.lastDominated != 0 && w.lastDominated != length {
		w.changedAt = began
	}
	w.lastDominated = length
	w.dominated[length] += blockSize
}

// usualEntries returns the length of at least four in five chains, or 0.
func (w *window) usualEntries() uint8 {
	for length, n := range w.histogram {
		if n*5 >= w.chains*4 && n >= Enough/2 {
			return uint8(length)
		}
	}
	return 0
}
