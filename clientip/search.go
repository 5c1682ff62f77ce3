package clientip

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/weirgate/weir"
)

// maxTrusted is how many trusted entries are passed before the search gives up. Only somebody inside
// the trusted networks can make a chain that long.
const maxTrusted = 64

// maxRepeats is how many lines of a header that should have one are compared.
const maxRepeats = 8

// A search is the state of one resolution.
type search struct {
	r   *Resolver
	req *weir.Request
	c   *weir.Client
	cur cursor

	// hop is the last trusted hop, the one whose word comes next; the zero Addr if it is a unix
	// socket, which hopUnix says, or if there is none.
	hop     netip.Addr
	hopUnix bool
	atPeer  bool // hop is the peer
}

// peerIn reports whether the peer is in t, and where it is not, settles on the peer as the client.
func (s *search) peerIn(t *table, by string) bool {
	in := t.unix
	if !s.req.Unix {
		in = s.req.Peer.IsValid() && t.contains(s.req.Peer)
	}
	if !in {
		s.stranger()
		return false
	}
	if s.req.Trace {
		s.note(s.peerText(), true, by)
	}
	s.cur.forwarded = s.r.forwarded
	if lines := s.req.Header[s.r.chainName]; !blank(lines) {
		s.cur.lines = lines
	}
	return true
}

// stranger settles on a peer that is no proxy of ours.
func (s *search) stranger() {
	if s.req.Trace {
		s.note(s.peerText(), false, "peer")
	}
	s.c.Chain.Codes |= s.r.claims(s.req)
	if !s.req.Unix && s.req.Peer.IsValid() {
		s.settle(weir.Direct, s.req.Peer)
		return
	}
	if s.req.Unix {
		s.c.Chain.Codes |= weir.PeerUnixUntrusted
	}
	s.nobody()
}

// claims returns the code for headers that came from a peer that may not send them.
func (r *Resolver) claims(req *weir.Request) weir.Codes {
	switch {
	case len(req.Header) == 0:
		return 0
	case r.strategy == byPeer:
		if has(req, chainHeader) || has(req, forwardedHeader) || has(req, realIPHeader) {
			return weir.HeaderUnexpected
		}
	case has(req, r.chainName) || r.valueName != "" && has(req, r.valueName):
		return weir.PeerUntrustedWithHeader
	}
	return 0
}

func has(req *weir.Request, name string) bool { return len(req.Header[name]) > 0 }

// passTrusted walks leftwards past every trusted address.
func (s *search) passTrusted() {
	if !s.peerIn(&s.r.peers, "peer") {
		return
	}
	if a, ok := s.outside(&s.r.peers); ok {
		s.settle(weir.Forwarded, a)
		s.shape()
	}
}

// outside returns the first address from the right that is not in t. Where there is none it settles.
func (s *search) outside(t *table) (netip.Addr, bool) {
	for range maxTrusted {
		a, unix, ok := s.read()
		switch {
		case !ok && s.cur.read > 0 && s.cur.done:
			s.allTrusted()
			return netip.Addr{}, false
		case !ok:
			return netip.Addr{}, false
		case unix && !t.unix:
			s.note(unixEntry, false, s.position())
			s.unresolved(weir.ChainInvalidEntry)
			return netip.Addr{}, false
		case !unix && !t.contains(a):
			s.noteEntry(a, false, false, "")
			return a, true
		}
		s.noteEntry(a, unix, true, "")
		s.pass(a, unix)
	}
	if s.cur.left(1) == 0 {
		s.allTrusted()
	} else {
		s.unresolved(weir.ChainTooLong)
	}
	return netip.Addr{}, false
}

// allTrusted settles on the leftmost address of a chain that is ours from end to end.
func (s *search) allTrusted() {
	if s.hopUnix {
		s.unresolved(weir.ChainShort)
		return
	}
	s.settle(weir.AllTrusted, s.hop)
	s.shape()
}

// countFromRight takes the N-th entry. The entries right of it are not compared with anything, so
// that the peer stays the last hop whose word is known to be good.
func (s *search) countFromRight() {
	if !s.peerIn(&s.r.peers, "peer") {
		return
	}
	for range s.r.fromRight - 1 {
		a, unix, ok := s.entry()
		if !ok {
			return
		}
		if unix && !s.r.peers.unix {
			s.unresolved(weir.ChainInvalidEntry)
			return
		}
		s.noteEntry(a, unix, true, "")
	}
	if a, ok := s.clientEntry(); ok {
		s.settle(weir.Forwarded, a)
		s.shape()
	}
}

// followPath goes from the nearest hop outwards. The first address that is not the next hop's is the
// client: that hop was bypassed, or there is none.
func (s *search) followPath() {
	hops := s.r.hops
	if !s.peerIn(&hops[0].from, hops[0].name) {
		return
	}
	for i := range hops {
		if hops[i].opaque() {
			continue
		}
		a, unix, ok := s.seenBy(&hops[i])
		if !ok {
			return
		}
		if i+1 < len(hops) && hops[i+1].from.has(a, unix) {
			s.noteEntry(a, unix, true, hops[i+1].name)
			s.pass(a, unix)
			continue
		}
		s.arrive(&hops[i], a, unix)
		return
	}
}

// seenBy returns who connected to h, by h's own word.
func (s *search) seenBy(h *hop) (a netip.Addr, unix, ok bool) {
	if h.header != "" {
		for range h.appends {
			s.cur.next(maxEntry)
		}
		a, ok = s.value(h.header, false)
		return a, false, ok
	}
	for range h.appends - 1 {
		own, isUnix, ok := s.entry()
		if !ok {
			return own, isUnix, false
		}
		s.noteEntry(own, isUnix, true, h.name)
	}
	return s.entry()
}

// arrive settles on the address that h saw and that is no further hop's.
func (s *search) arrive(h *hop, a netip.Addr, unix bool) {
	if unix {
		s.note(unixEntry, false, s.position())
		s.unresolved(weir.ChainInvalidEntry)
		return
	}
	if h.header != "" {
		s.noteAddr(a, h.header)
		s.settle(weir.FromHeader, a)
	} else {
		s.noteEntry(a, false, false, "")
		s.settle(weir.Forwarded, a)
	}
	s.shape()
}

// readHeader takes the one header that the edge overwrites. Where a proxy stands between, the chain
// must show that the edge was not bypassed.
func (s *search) readHeader() {
	if !s.peerIn(&s.r.peers, "peer") {
		return
	}
	if !s.r.via.empty() {
		edge, ok := s.outside(&s.r.peers)
		if !ok {
			return
		}
		if !s.r.via.contains(edge) {
			s.settle(weir.Forwarded, edge)
			s.shape()
			return
		}
		s.trustLast()
		s.pass(edge, false)
	} else {
		s.cur = cursor{} // the chain is not asked
	}
	if a, ok := s.value(s.r.valueName, s.r.lastColon); ok {
		s.noteAddr(a, s.r.valueName)
		s.settle(weir.FromHeader, a)
		s.shape()
	}
}

// value returns the address in a header of which one value is expected. Repeats must agree.
func (s *search) value(name string, lastColon bool) (netip.Addr, bool) {
	lines := s.req.Header[name]
	if blank(lines) {
		s.ended(weir.ChainMissing)
		return netip.Addr{}, false
	}
	s.c.Chain.Entries = uint8(min(len(lines), weir.ManyEntries))
	if len(lines) > maxRepeats {
		s.refuse(lines[0], name, weir.HeaderDuplicate)
		return netip.Addr{}, false
	}
	var first netip.Addr
	for i, line := range lines {
		a, ok := parseValue(line, lastColon)
		switch {
		case i > 0 && (!ok || a != first), !ok && strings.IndexByte(clip(line), ',') >= 0:
			s.refuse(line, name, weir.HeaderDuplicate)
			return netip.Addr{}, false
		case !ok && len(lines) == 1:
			s.refuse(line, name, weir.ChainInvalidEntry)
			return netip.Addr{}, false
		}
		first = a
	}
	return first, true
}

// clientEntry reads the entry that must be the client's.
func (s *search) clientEntry() (netip.Addr, bool) {
	a, unix, ok := s.entry()
	if !ok {
		return a, false
	}
	if unix {
		s.note(unixEntry, false, s.position())
		s.unresolved(weir.ChainInvalidEntry)
		return a, false
	}
	s.noteEntry(a, false, false, "")
	return a, true
}

// entry reads the next entry and settles where there is none.
func (s *search) entry() (a netip.Addr, unix, ok bool) {
	a, unix, ok = s.read()
	if !ok && s.cur.done && s.cur.read > 0 {
		s.unresolved(weir.ChainShort)
	}
	return a, unix, ok
}

// read reads the next entry. It settles where the header is missing and where the entry is bad, and
// leaves the end of the chain to the caller.
func (s *search) read() (a netip.Addr, unix, ok bool) {
	if a, ok = s.cur.next4(); ok {
		return a, false, true
	}
	text, more := s.cur.next(s.cur.limit())
	if !more {
		if s.cur.read == 0 {
			s.ended(weir.ChainShort)
		}
		return a, false, false
	}
	a, unix, ok = s.cur.address(text)
	if !ok {
		s.note(clip(trimOWS(text)), false, s.position())
		s.unresolved(weir.ChainInvalidEntry)
	}
	return a, unix, ok
}

// ended settles where the header that the last hop should have written is not there at all.
func (s *search) ended(further weir.Codes) {
	switch {
	case !s.atPeer:
		s.unresolved(further)
	case s.hopUnix:
		s.unresolved(weir.ChainMissing)
	default:
		s.c.Chain.Codes |= weir.ChainMissing
		s.settle(weir.PeerOnly, s.hop)
	}
}

// pass makes the address that was just read the last trusted hop.
func (s *search) pass(a netip.Addr, unix bool) { s.hop, s.hopUnix, s.atPeer = a, unix, false }

// refuse settles on a value that is not believed.
func (s *search) refuse(text, name string, code weir.Codes) {
	s.noteValue(clip(text), name)
	s.unresolved(code)
}

// unresolved settles on nobody: the last trusted hop's word is missing or makes no sense.
func (s *search) unresolved(code weir.Codes) {
	s.nobody()
	s.c.Chain.Codes |= code
	s.shape()
}

// nobody says that the search ended with the last hop.
func (s *search) nobody() {
	s.c.Source, s.c.Addr, s.c.Prefix = weir.Unresolved, netip.Addr{}, netip.Prefix{}
	s.c.Via, s.c.ViaUnix = s.hop, s.hopUnix
}

// settle settles on a.
func (s *search) settle(source weir.Source, a netip.Addr) {
	s.c.Source, s.c.Addr, s.c.Prefix = source, a, s.r.prefix(a)
	s.c.Via, s.c.ViaUnix = netip.Addr{}, false
	if IsPrivate(a) {
		s.c.Chain.Codes |= weir.ClientPrivate
	}
	if a.Is6() && a == workers {
		s.c.Chain.Codes |= weir.ClientSharedKnown
	}
}

// shape fills in what the rest of the chain looks like.
func (s *search) shape() {
	chain := &s.c.Chain
	entries := s.cur.read
	if s.cur.more || len(s.cur.lines) > 0 {
		entries += s.cur.left(weir.ManyEntries)
	}
	if entries == 0 {
		return
	}
	chain.Entries = uint8(min(entries, weir.ManyEntries))
	if s.r.expected > 0 && entries > s.r.expected {
		chain.Codes |= weir.ChainLong
	}
	if s.c.Source == weir.Unresolved || entries == s.cur.read {
		return
	}
	var ok bool
	if chain.Left, ok = s.cur.next4(); ok {
		return
	}
	if text, ok := s.cur.next(maxLeft); ok {
		chain.Left, _, _ = s.cur.address(text)
	}
}

// peerText is the peer as the trace shows it.
func (s *search) peerText() string {
	switch {
	case s.req.Unix:
		return "unix"
	case !s.req.Peer.IsValid():
		return "none"
	}
	return s.req.Peer.String()
}

// position names the entry that was read last, as in x-forwarded-for[1].
func (s *search) position() string {
	if !s.req.Trace {
		return ""
	}
	return strings.ToLower(s.r.chainName) + "[" + strconv.Itoa(s.cur.read) + "]"
}

// noteEntry keeps an address of the chain as a step. An empty by stands for its position.
func (s *search) noteEntry(a netip.Addr, unix, trusted bool, by string) {
	if s.req.Trace {
		s.keepEntry(a, unix, trusted, by)
	}
}

func (s *search) keepEntry(a netip.Addr, unix, trusted bool, by string) {
	text := unixEntry
	if !unix {
		text = a.String()
	}
	if by == "" {
		by = s.position()
	}
	s.note(text, trusted, by)
}

// noteValue keeps a header's value as a step.
func (s *search) noteValue(text, name string) {
	if s.req.Trace {
		s.note(text, false, strings.ToLower(name))
	}
}

// noteAddr keeps an address in a header as a step.
func (s *search) noteAddr(a netip.Addr, name string) {
	if s.req.Trace {
		s.note(a.String(), false, strings.ToLower(name))
	}
}

// note keeps a step.
func (s *search) note(text string, trusted bool, by string) {
	if s.req.Trace {
		s.c.Hops = append(s.c.Hops, weir.Hop{Address: text, Trusted: trusted, By: by})
	}
}

// trustLast marks the step that was noted last as trusted.
func (s *search) trustLast() {
	if n := len(s.c.Hops); n > 0 {
		s.c.Hops[n-1].Trusted = true
	}
}
