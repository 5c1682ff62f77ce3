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
	client  netip.Prefix
	source  weir.Source
	entries uint8
	private bool // the client's address is
	public  bool // the left neighbour is
	codes   weir.Codes

	clientHash, agentHash            uint64
	leftHash, strayHash, nearestHash uint64 // 0: there is none

	stray netip.Addr // the peer, if there is a strayHash
	proxy string     // the CDN that the client's address belongs to
}

// See makes s what is to be seen of the request of d, whose client was resolved: the hash tells him from others. It
// waits for nobody, allocates nothing, and keeps nothing of d.
func (m *Monitor) See(s *Sight, d *weir.Decision, client uint64) {
	req, c := &d.Request, &d.Client
	s.at, s.client, s.clientHash, s.source, s.codes = d.At, c.Prefix, client, c.Source, c.Chain.Codes
	s.entries, s.private = min(c.Chain.Entries, weir.ManyEntries), s.codes&weir.ClientPrivate != 0
	s.agentHash, s.leftHash, s.strayHash, s.nearestHash, s.public, s.proxy = 0, 0, 0, 0, false, ""
	if agents := req.Header["User-Agent"]; len(agents) > 0 {
		s.agentHash = maphash.String(m.seed, agents[0][:min(len(agents[0]), maxAgent)])
	}
	if s.codes&(weir.HeaderUnexpected|weir.PeerUntrustedWithHeader) != 0 && req.Peer.IsValid() {
		s.stray, s.strayHash = req.Peer, m.hash(req.Peer)
	}
	if left := c.Chain.Left; left.IsValid() {
		s.leftHash, s.public = m.hash(left), !local(left)
	}
	if c.Addr.IsValid() && !s.private {
		s.proxy = m.cfg.KnownProxy(c.Addr)
	}
	if m.cfg.FromRight > 1 {
		m.lookNearest(req, s)
	}
}

// lookNearest looks at the entry where the outermost proxy but one should stand: whether it is a public address
// of no known proxy.
func (m *Monitor) lookNearest(req *weir.Request, s *Sight) {
	a := m.cfg.Nearest(req)
	if a.IsValid() && !local(a) && m.cfg.KnownProxy(a) == "" {
		s.nearestHash = m.hash(a)
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
	ends     time.Time
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
	for codes, i := s.codes, 0; codes != 0; codes, i = codes>>1, i+1 {
		w.codes[i] += int(codes & 1)
	}
	w.agents.add(s.agentHash)
	w.clients.add(s.clientHash, s.client)
	if s.strayHash != 0 {
		w.strays.add(s.strayHash, netip.PrefixFrom(s.stray, s.stray.BitLen()))
	}
	if s.leftHash != 0 {
		w.lefts.add(s.leftHash)
	}
	if s.nearestHash != 0 {
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
