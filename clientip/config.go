package clientip

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// Config says how the client is found. At most one of Path, Header, TrustedProxies and FromRight is
// given; without any, the client is the peer.
type Config struct {
	Path           []Hop    // the proxies in travel order; the last one connects to us
	Forwarded      bool     // read RFC 7239 Forwarded in place of X-Forwarded-For
	Header         string   // one header that the edge overwrites
	HeaderFormat   string   // ip, which is the default, or ip_port_last_colon
	Peers          []string // whose headers are believed, for Header and FromRight
	Via            []string // with Header: the networks of the edge, where a proxy stands between
	TrustedProxies []string // walk from the right past these
	FromRight      int      // the N-th entry from the right; 0 is none
	IPv4Prefix     int      // bits of one client; 0 is 32
	IPv6Prefix     int      // bits of one client; 0 is 64

	// Ranges replace those of the presets, by name.
	Ranges map[string][]string

	// DangerouslyTrustEveryone accepts networks that hold every address: anyone can then choose his
	// own address.
	DangerouslyTrustEveryone bool
}

// A Hop is one proxy on the way: a preset's name, or what is known of it.
type Hop struct {
	Name    string
	CIDRs   []string // empty: the preset's
	Appends *int     // entries appended to the chain, 0 to 2; nil: the preset's, else 1
	Header  string   // header that is read in place of the entries; empty: the preset's, if it appends none
}

// A Problem is one thing that is wrong with a Config, or suspicious.
type Problem struct {
	Field   string // within the Config, as in trusted_proxies[1]
	What    string // what is wrong
	Cure    string // what to write instead
	Warning bool   // legal, but suspicious
}

// settable are the headers that a client can write himself unless the edge is told otherwise.
const settable = " True-Client-Ip Fastly-Client-Ip X-Azure-Clientip X-Client-Ip Client-Ip X-Cluster-Client-Ip "

// New returns the resolver that cfg describes and every problem of cfg. It is nil if one of them is
// not a warning.
func New(cfg Config) (*Resolver, []Problem) {
	b := builder{cfg: &cfg, r: &Resolver{bits4: cfg.IPv4Prefix, bits6: cfg.IPv6Prefix, forwarded: cfg.Forwarded, chainName: chainHeader}}
	if cfg.Forwarded {
		b.r.chainName = forwardedHeader
	}
	b.prefixes()
	b.knownRanges()
	b.choose()
	b.unused()
	b.identity()
	b.r.picture, b.r.traps = newPicture(&cfg), collectTraps(&cfg)
	if slices.ContainsFunc(b.problems, func(p Problem) bool { return !p.Warning }) {
		return nil, b.problems
	}
	return b.r, b.problems
}

// A builder compiles a Config.
type builder struct {
	cfg      *Config
	r        *Resolver
	problems []Problem
}

func (b *builder) refuse(field, what, cure string) {
	b.problems = append(b.problems, Problem{Field: field, What: what, Cure: cure})
}

func (b *builder) warn(field, what, cure string) {
	b.problems = append(b.problems, Problem{Field: field, What: what, Cure: cure, Warning: true})
}

// prefixes checks how wide one client is.
func (b *builder) prefixes() {
	if n := b.cfg.IPv4Prefix; n < 0 || n > 32 {
		b.refuse("ipv4_prefix", fmt.Sprintf("%d is not a number of bits of an IPv4 address", n), "write 1 to 32")
	}
	switch n := b.cfg.IPv6Prefix; {
	case n < 0 || n > 128:
		b.refuse("ipv6_prefix", fmt.Sprintf("%d is not a number of bits of an IPv6 address", n), "write 1 to 128, best 64")
	case n > 64:
		b.warn("ipv6_prefix", fmt.Sprintf("a client that owns a /64 has 2^%d keys of /%d", n-64, n), "write 64 or less")
	}
}

// choose compiles the one strategy that is given.
func (b *builder) choose() {
	given := b.strategies()
	if len(given) > 1 {
		b.refuse(given[1], "only one way to find the client may be given, and there is "+strings.Join(given, ", "), "keep one of them")
	}
	if len(given) > 0 && given[0] == "path" {
		b.path()
	}
	if len(b.cfg.TrustedProxies) > 0 {
		b.r.strategy = byTrust
		b.r.peers, b.r.listed = b.table("trusted_proxies", b.cfg.TrustedProxies), scalars(b.cfg.TrustedProxies)
	}
	if b.cfg.FromRight != 0 {
		b.count()
	}
	if b.cfg.Header != "" {
		b.header()
	}
}

// strategies returns the fields that say how to find the client.
func (b *builder) strategies() []string {
	var given []string
	for _, s := range []struct {
		field string
		given bool
	}{
		{"path", len(b.cfg.Path) > 0},
		{"trusted_proxies", len(b.cfg.TrustedProxies) > 0},
		{"from_right", b.cfg.FromRight != 0},
		{"header", b.cfg.Header != ""},
	} {
		if s.given {
			given = append(given, s.field)
		}
	}
	return given
}

// count compiles from_right.
func (b *builder) count() {
	peers := b.cfg.Peers
	if b.cfg.FromRight < 0 {
		b.refuse("from_right", fmt.Sprintf("%d is no position", b.cfg.FromRight), "write 1 for the entry that the nearest proxy appended")
	}
	if len(peers) == 0 {
		peers = []string{"private", "unix"}
		b.warn("from_right", "a position without peers believes every private address, and does not notice when the path changes",
			"name the proxies in path, or the networks of the nearest one in peers")
	}
	b.r.strategy, b.r.fromRight, b.r.expected = byCount, b.cfg.FromRight, max(b.cfg.FromRight, 0)
	b.r.peers, b.r.listed = b.table("peers", peers), scalars(peers)
}

// header compiles header.
func (b *builder) header() {
	name := textproto.CanonicalMIMEHeaderKey(b.cfg.Header)
	b.r.strategy, b.r.valueName = byHeader, name
	b.headerName("header", name)
	switch b.cfg.HeaderFormat {
	case "", "ip":
	case "ip_port_last_colon":
		b.r.lastColon = true
	default:
		b.refuse("header_format", fmt.Sprintf("%q is not known", b.cfg.HeaderFormat), "write ip or ip_port_last_colon")
	}
	if len(b.cfg.Peers) == 0 {
		b.refuse("header", "a header without peers could be written by anyone", "name the networks of the proxy that writes it in peers")
	}
	b.r.peers, b.r.listed = b.table("peers", b.cfg.Peers), scalars(b.cfg.Peers)
	b.r.via = b.table("via", b.cfg.Via)
}

// headerName checks a header that shall hold one address.
func (b *builder) headerName(field, name string) {
	switch {
	case !IsToken(name):
		b.refuse(field, fmt.Sprintf("%q is not a header name", name), "write one name, as in CF-Connecting-IP")
	case name == chainHeader:
		b.refuse(field, "X-Forwarded-For is a list that clients begin", "write path, trusted_proxies or from_right")
	case name == forwardedHeader:
		b.refuse(field, "Forwarded is a list that clients begin", "write forwarded: true with path, trusted_proxies or from_right")
	case strings.Contains(settable, " "+name+" "):
		b.warn(field, "clients can write "+name+" themselves unless the edge is told to overwrite it",
			"make sure that the edge overwrites it, or read the chain")
	}
}

// IsToken reports whether s can be the name of a header, or a method (RFC 9110 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", s[i]) >= 0 {
			return false
		}
	}
	return s != ""
}

// unused warns of settings that nothing reads.
func (b *builder) unused() {
	reads := b.cfg.Header != "" || b.cfg.FromRight != 0
	if len(b.cfg.Peers) > 0 && !reads {
		b.warn("peers", "only header and from_right read it", "remove it")
	}
	if len(b.cfg.Via) > 0 && b.cfg.Header == "" {
		b.warn("via", "only header reads it", "remove it")
	}
	if b.cfg.HeaderFormat == "ip_port_last_colon" && b.cfg.Header == "" {
		b.warn("header_format", "only header reads it", "remove it")
	}
	if b.cfg.Forwarded && len(b.strategies()) == 0 {
		b.warn("forwarded", "no header is read where the client is the peer", "add path, trusted_proxies or from_right, or remove it")
	}
}

// identity collects the headers that must not reach the upstream.
func (b *builder) identity() {
	list := append(strings.Fields(identityHeaders), b.cfg.Header)
	for i := range b.r.hops {
		list = append(list, b.r.hops[i].header)
	}
	b.r.identity = newNames(list)
}
