package policy

import (
	"fmt"
	"net/netip"

	"github.com/weirgate/weir"
)

// Spares reports whether c is never banned by a penalty, whatever it does: one whose address nobody vouches
// for, a proxy of ours or this machine, whom allow names, and a peer of a private network that sends a
// chain, which is probably a proxy that the configuration does not know of, and bans of which would be bans of
// everybody behind it.
func (p *Policy) Spares(c *weir.Client) bool {
	const poses = weir.HeaderUnexpected | weir.PeerUnlistedProxy | weir.PeerUntrustedWithHeader
	if !c.Vouched() || !c.Addr.IsValid() || c.Addr.IsLoopback() || p.Allows(c) {
		return true
	}
	if c.Source == weir.Direct && c.Addr.IsPrivate() && c.Chain.Codes&poses != 0 {
		return true
	}
	_, _, trusted := p.resolver.TrustedIn(c.Prefix)
	return trusted
}

// loopback are the networks of this machine.
var loopback = [...]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Protects returns why nobody should ban n without meaning it, or nothing: it holds this machine, a trusted
// proxy behind which there is everybody, or whom allow names.
func (p *Policy) Protects(n netip.Prefix) string {
	for _, l := range loopback {
		if l.Overlaps(n) {
			return fmt.Sprintf("%s holds loopback addresses, which are this machine", n)
		}
	}
	if at, setting, ok := p.resolver.TrustedIn(n); ok {
		return fmt.Sprintf("%s holds %s, a proxy that %s trusts: everybody behind it would be banned", n, at, setting)
	}
	if at, ok := p.allowed.addresses.within(n); ok {
		return fmt.Sprintf("%s holds %s, which allow lets in whatever is banned", n, at)
	}
	return ""
}

// ProtectsKey returns why nobody should ban an API key without meaning it, or nothing.
func (p *Policy) ProtectsKey(id string) string {
	if p.Allows(&weir.Client{APIKey: id}) {
		return "allow lets key:" + id + " in whatever is banned"
	}
	return ""
}

// within returns the first address of n that is in the set.
func (r ranges) within(n netip.Prefix) (netip.Addr, bool) {
	for _, s := range r {
		if n.Contains(s.from) {
			return s.from, true
		}
		if !n.Addr().Less(s.from) && !s.to.Less(n.Addr()) {
			return n.Addr(), true
		}
	}
	return netip.Addr{}, false
}
