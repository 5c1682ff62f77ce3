package weir

import "net/netip"

// A Source tells how a client's identity was found.
type Source uint8

const (
	// Direct: the peer is not a proxy of ours, so it is the client.
	Direct Source = iota
	// Forwarded: a trusted proxy wrote the address into the chain.
	Forwarded
	// FromHeader: a trusted edge overwrote the one configured header.
	FromHeader
	// AllTrusted: every hop of the chain is ours; an internal client.
	AllTrusted
	// PeerOnly: a trusted peer sent no header at all.
	PeerOnly
	// Unresolved: a trusted hop should have written an address and did not.
	Unresolved
)

var sourceNames = [...]string{"direct", "forwarded", "header", "all_trusted", "peer_only", "unresolved"}

func (s Source) String() string { return sourceNames[s] }

// A Client is who is asking, as resolved.
type Client struct {
	// Addr is the client's address in canonical form. It is the zero Addr when Source is Unresolved.
	Addr netip.Addr
	// Prefix is the network that counts as one client. It is the zero Prefix when Source is Unresolved.
	Prefix netip.Prefix
	Source Source
	// Via says where the resolution ended when Source is Unresolved: the address of the last trusted
	// hop. The zero Addr stands for a unix socket if ViaUnix is set, else for no address at all.
	Via     netip.Addr
	ViaUnix bool

	APIKey     string     // id of the verified API key or token, or empty
	Plan       string     // the plan of that key, or empty
	Scopes     []string   // what that key may be used for; shared, never written to
	Credential Credential // what became of the key or token that the request bears

	// Chain is what the header that was read looked like, for the chain diagnosis.
	Chain Chain
	// Hops are the steps from the peer outwards. They are kept only if [Request.Trace] is set.
	Hops []Hop
}

// A Chain is the shape of the header that the client was looked for in. Reading it costs the same
// however much an asker prepends.
type Chain struct {
	Entries uint8      // how many, counted from the right; [ManyEntries] stands for that or more
	Left    netip.Addr // the address left of the resolved one, or the zero Addr
	Codes   Codes      // what this one request gives rise to
}

// ManyEntries is where counting a chain's entries stops.
const ManyEntries = 7

// A Hop is one step of the resolution: an address, whether it was trusted, and what named it.
type Hop struct {
	Address string `json:"address"` // as written where it is not an address
	Trusted bool   `json:"trusted"`
	By      string `json:"by"` // peer, proxy_protocol, the name of a configured hop, or header[position from the right]
}

// Vouched reports whether somebody other than the asker wrote the address: the connection itself or a
// trusted hop. Only vouched clients are exempted or allowed by address.
func (c *Client) Vouched() bool {
	return c.Source == Direct || c.Source == Forwarded || c.Source == FromHeader
}

// AppendKey appends the text under which the client's address is counted: the prefix in CIDR form,
// or unresolved:HOP.
func (c *Client) AppendKey(b []byte) []byte {
	switch {
	case c.Source != Unresolved:
		return c.Prefix.AppendTo(b)
	case c.ViaUnix:
		return append(b, "unresolved:unix"...)
	case !c.Via.IsValid():
		return append(b, "unresolved:none"...)
	}
	return c.Via.AppendTo(append(b, "unresolved:"...))
}

// Key returns AppendKey's text.
func (c *Client) Key() string { return string(c.AppendKey(nil)) }

// Codes is a set of diagnosis codes.
type Codes uint32

const (
	ChainMissing Codes = 1 << iota
	ChainShort
	ChainLong
	ChainInvalidEntry
	ChainTooLong
	HeaderUnexpected
	HeaderDuplicate
	HeaderNotAddedByProxy
	PeerUnlistedProxy
	PeerUntrustedWithHeader
	PeerUnixUntrusted
	ClientPrivate
	ClientSharedKnown
	ClientConstant
	OneClient
	DepthLow
	DepthHigh
	ChainModeChanged
	ConfigTrustsEveryone
	endOfCodes
)

var codeNames = [...]string{
	"chain.missing", "chain.short", "chain.long", "chain.invalid_entry", "chain.too_long",
	"header.unexpected", "header.duplicate", "header.not_added_by_proxy",
	"peer.unlisted_proxy", "peer.untrusted_with_header", "peer.unix_untrusted",
	"client.private", "client.shared_known", "client.constant",
	"one_client", "depth.low", "depth.high", "chain.mode_changed", "config.trusts_everyone",
}

// Names returns the codes of the set as operators see them.
func (c Codes) Names() []string {
	var names []string
	for i, name := range codeNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// AllCodes is the set of every code.
const AllCodes = endOfCodes - 1
