package clientip

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirgate/weir"
)

// The model finds the client the plain way: it takes the whole header apart, with regular
// expressions and net/netip, and looks at the list.

var (
	modelV4      = regexp.MustCompile(`^([0-9.]+)(:[0-9]{1,5})?$`)
	modelBracket = regexp.MustCompile(`^\[([^\]]*)\](:[0-9]{1,5})?$`)
	modelZone    = regexp.MustCompile(`^(.*)%[A-Za-z0-9._~-]{1,16}$`)
)

func modelEntry(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if m := modelV4.FindStringSubmatch(s); m != nil {
		a, err := netip.ParseAddr(m[1])
		return a, err == nil && !a.IsUnspecified()
	}
	if m := modelBracket.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	zoned := false
	if m := modelZone.FindStringSubmatch(s); m != nil {
		s, zoned = m[1], true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || !a.Is6() || zoned && a.Is4In6() {
		return netip.Addr{}, false
	}
	a = a.Unmap()
	return a, !a.IsUnspecified()
}

// A modelHop is an entry as the model sees it.
type modelHop struct {
	addr      netip.Addr
	unix, bad bool
}

func modelChain(lines []string) []modelHop {
	if len(lines) == 0 || len(lines) == 1 && len(lines[0]) <= maxEntry && strings.Trim(lines[0], " \t") == "" {
		return nil
	}
	var chain []modelHop
	for _, raw := range slices.Backward(strings.Split(strings.Join(lines, ","), ",")) {
		a, ok := modelEntry(raw)
		unix := strings.Trim(raw, " \t") == "unix:"
		h := modelHop{addr: a, unix: unix, bad: !ok && !unix}
		if len(raw) > maxEntry {
			h = modelHop{bad: true}
		}
		chain = append(chain, h)
	}
	return chain
}

func modelIn(list []string, h modelHop) bool {
	if h.unix {
		return slices.Contains(list, "unix")
	}
	for _, word := range list {
		networks := []string{word}
		if word == "private" {
			networks = strings.Fields(privateRanges)
		}
		for _, n := range networks {
			if p, err := netip.ParsePrefix(n); err == nil && p.Contains(h.addr) {
				return true
			}
		}
	}
	return false
}

func modelUnresolved(h modelHop) answer {
	switch {
	case h.unix:
		return answer{Key: "unresolved:unix", Source: "unresolved"}
	case !h.addr.IsValid():
		return answer{Key: "unresolved:none", Source: "unresolved"}
	}
	return answer{Key: "unresolved:" + h.addr.String(), Source: "unresolved"}
}

func modelFound(h modelHop, source string) answer {
	bits := 64
	switch {
	case h.unix || !h.addr.IsValid():
		return modelUnresolved(h)
	case h.addr.Is4():
		bits = 32
	case h.addr.IsLoopback(), h.addr.IsLinkLocalUnicast(), netip.MustParsePrefix("64:ff9b::/96").Contains(h.addr):
		bits = 128
	case netip.MustParsePrefix("2002::/16").Contains(h.addr):
		bits = 48
	}
	return answer{Client: h.addr.String(), Key: netip.PrefixFrom(h.addr, bits).Masked().String(), Source: source}
}

// modelResolve answers for trusted_proxies and from_right.
func modelResolve(cfg Config, peer modelHop, lines []string) answer {
	trusted := cfg.TrustedProxies
	if cfg.FromRight > 0 {
		trusted = cfg.Peers
	}
	if !modelIn(trusted, peer) {
		return modelFound(peer, "direct")
	}
	chain := modelChain(lines)
	if len(chain) == 0 {
		return modelFound(peer, "peer_only")
	}
	if cfg.FromRight > 0 {
		return modelCount(cfg, peer, chain)
	}
	last := peer
	for i, h := range chain {
		switch {
		case i == maxTrusted, h.bad, h.unix && !modelIn(trusted, h):
			return modelUnresolved(last)
		case !modelIn(trusted, h):
			return modelFound(h, "forwarded")
		}
		last = h
	}
	return modelFound(last, "all_trusted")
}

func modelCount(cfg Config, peer modelHop, chain []modelHop) answer {
	if len(chain) < cfg.FromRight {
		return modelUnresolved(peer)
	}
	for _, h := range chain[:cfg.FromRight-1] {
		if h.bad || h.unix && !modelIn(cfg.Peers, h) {
			return modelUnresolved(peer)
		}
	}
	client := chain[cfg.FromRight-1]
	if client.bad || client.unix {
		return modelUnresolved(peer)
	}
	return modelFound(client, "forwarded")
}

var modelConfigs = []Config{
	{FromRight: 1, Peers: []string{"private", "unix"}},
	{FromRight: 2, Peers: []string{"10.0.0.0/8"}},
	{FromRight: 3, Peers: []string{"private", "unix"}},
	{TrustedProxies: []string{"10.0.0.0/8", "unix"}},
	{TrustedProxies: []string{"private", "173.245.48.0/20", "2400:cb00::/32"}},
}

var modelPeers = []string{"10.0.0.1:1", "@", "203.0.113.9:1", "", "[::1]:1", "[2400:cb00::1]:1"}

func modelResolvers(t testing.TB) []*Resolver {
	var list []*Resolver
	for _, cfg := range modelConfigs {
		list = append(list, mustNew(t, cfg))
	}
	return list
}

// compare resolves lines in every way and reports where the resolvers and the model disagree.
func compare(t *testing.T, resolvers []*Resolver, lines []string) {
	t.Helper()
	for i, cfg := range modelConfigs {
		for _, remote := range modelPeers {
			req := &weir.Request{Header: http.Header{"X-Forwarded-For": lines}}
			req.Peer, req.Unix = weir.ParsePeer(remote)
			var c weir.Client
			resolvers[i].Resolve(req, &c)
			want := modelResolve(cfg, modelHop{addr: req.Peer, unix: req.Unix}, lines)
			if diff := cmp.Diff(want, answerOf(&c)); diff != "" {
				t.Errorf("config %d, peer %q, %q: -model +resolver:\n%s", i, remote, lines, diff)
			}
		}
	}
}

func FuzzResolverEqualsTheModel(f *testing.F) {
	for _, v := range readVectors(f).Vectors {
		var lines []string
		for _, h := range v.Headers {
			if http.CanonicalHeaderKey(h[0]) == chainHeader {
				lines = append(lines, h[1])
			}
		}
		f.Add(strings.Join(lines, "\n"))
	}
	f.Add("10.0.0.9" + strings.Repeat(", 10.0.0.9", maxTrusted-1))
	f.Add("10.0.0.9" + strings.Repeat(", 10.0.0.9", maxTrusted))
	f.Add("203.0.113.7," + strings.Repeat(" ", maxEntry-len("10.0.0.9")) + "10.0.0.9")
	f.Add("203.0.113.7," + strings.Repeat(" ", maxEntry-len("10.0.0.9")+1) + "10.0.0.9")
	resolvers := modelResolvers(f)
	f.Fuzz(func(t *testing.T, header string) {
		compare(t, resolvers, strings.Split(header, "\n"))
	})
}

// Whatever stands left of what a trusted hop appended changes nothing.
func FuzzPrependingChangesNothing(f *testing.F) {
	f.Add("1.2.3.4", "203.0.113.7, 10.0.0.9")
	f.Add(`for="`, `for=203.0.113.7;host="a, for=9.9.9.9"`)
	f.Add(`for=6.6.6.6;by="\`, `for="[2001:db8::1]:80"`)
	f.Add(strings.Repeat(",", 100), "203.0.113.7")
	configs := slices.Clone(modelConfigs)
	for _, cfg := range modelConfigs {
		cfg.Forwarded = true
		configs = append(configs, cfg)
	}
	var resolvers []*Resolver
	for _, cfg := range configs {
		resolvers = append(resolvers, mustNew(f, cfg))
	}
	f.Fuzz(func(t *testing.T, junk, appended string) {
		for i, r := range resolvers {
			req := &weir.Request{Peer: netip.MustParseAddr("10.0.0.1"), Header: http.Header{r.chainName: {appended}}}
			var plain, padded weir.Client
			r.Resolve(req, &plain)
			if plain.Source != weir.Forwarded {
				continue // nothing was appended that names a client
			}
			req.Header[r.chainName] = []string{junk + ", " + appended}
			r.Resolve(req, &padded)
			if answerOf(&plain) != answerOf(&padded) {
				t.Errorf("config %d: %q gives %+v, after %q %+v", i, appended, answerOf(&plain), junk, answerOf(&padded))
			}
		}
	})
}

// An entry is an address exactly where net/netip, narrowed to what proxies write, says so.
func FuzzParseEntry(f *testing.F) {
	for _, s := range []string{"::", "1::", "::1", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::2::3", ":1", "1:", "1:::2",
		"::ffff:1.2.3.4", "::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3.4:5", "::ffff:0.0.0.0", "::0.0.0.1",
		"12345::", "g::", "fe80::1%eth0", "[fe80::1%eth0]:1", "::ffff:1.2.3.4%eth0", "1.2.3.4:", "1.2.3.4:123456", "01.2.3.4", "[::1", "[::1]:",
		"[1.2.3.4]", "1.2.3.4.", ".1.2.3.4", "256.1.1.1", "0.0.0.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxEntry {
			return
		}
		a, ok := parseEntry(s)
		want, wantOK := modelEntry(s)
		if ok != wantOK || ok && a != want {
			t.Errorf("%q: %v %v, want %v %v", s, a, ok, want, wantOK)
		}
	})
}

// A Forwarded element never makes the parser panic, and what it accepts is canonical.
func FuzzParseElement(f *testing.F) {
	for _, s := range []string{`for=1.2.3.4`, `For="[2001:db8::1]:80";proto=https`, `for="1.2.3.\4"`, `for="`, `for="\`, `;;;for=_x`, `for=1.2.3.4;for=1.2.3.4`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, ok := parseElement(s); ok && (a != weir.Canonical(a) || a.IsUnspecified() || !a.IsValid()) {
			t.Errorf("%q: %v", s, a)
		}
	})
}

// Random chains of what entries are made of meet more turns than random bytes do.
func TestResolverEqualsTheModelOnRandomChains(t *testing.T) {
	parts := []string{"10.0.0.9", "10.0.0.8:80", "203.0.113.7", "[2001:db8::1]:443", "2400:cb00::2", "unix:", "unknown", "", " ", "173.245.48.9",
		"fe80::1%eth0", "::ffff:10.0.0.7", "127.0.0.1", "2002:1:2:3::4", "64:ff9b::1"}
	seed := uint32(1)
	next := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	resolvers := modelResolvers(t)
	for range 3000 {
		lines := make([]string, 1+next(3))
		for i := range lines {
			entries := make([]string, next(4))
			for j := range entries {
				entries[j] = parts[next(len(parts))]
			}
			lines[i] = strings.Join(entries, []string{",", ", ", " ,\t"}[next(3)])
		}
		compare(t, resolvers, lines)
		if t.Failed() {
			t.Fatalf("%q", lines)
		}
	}
}
