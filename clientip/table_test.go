package clientip

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirgate/weir"
)

func TestATableHoldsExactlyItsNetworks(t *testing.T) {
	networks := mustPrefixes("10.0.0.0/8 10.1.0.0/16 192.0.2.0/25 192.0.2.128/25 255.255.255.255/32 0.0.0.0/32 2001:db8::/32 2001:db9::/33 ::1/128 ffff::/16 2001:db8:1::/64")
	table := newTable(networks, false)
	for _, p := range networks {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if !a.IsValid() {
				continue // past the end of its family
			}
			want := false
			for _, q := range networks {
				want = want || q.Contains(a)
			}
			if got := table.contains(a); got != want {
				t.Errorf("%s: %v, want %v", a, got, want)
			}
		}
	}
	if got, want := len(table.v4), 4; got != want {
		t.Errorf("%d IPv4 ranges, want %d: neighbours are one", got, want)
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestAnEmptyTableHoldsNobody(t *testing.T) {
	table := newTable(nil, false)
	if table.contains(netip.MustParseAddr("0.0.0.0")) || table.contains(netip.MustParseAddr("::")) || !table.empty() {
		t.Error("an empty table holds an address")
	}
	if unix := newTable(nil, true); unix.empty() || !unix.has(netip.Addr{}, true) {
		t.Error("a table of unix sockets is empty")
	}
}

func TestRangesReplaceAPresets(t *testing.T) {
	r := mustNew(t, Config{Path: []Hop{{Name: "cloudflare"}}, Ranges: map[string][]string{"cloudflare": {"192.0.2.0/28"}}})
	c := resolve(r, request("192.0.2.1:1", xff, "203.0.113.7"))
	if diff := cmp.Diff(answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}, answerOf(&c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	c = resolve(r, request("173.245.48.9:1", xff, "203.0.113.7"))
	if c.Source != weir.Direct {
		t.Errorf("the replaced ranges are still trusted: %s", c.Source)
	}
	for text, want := range map[string]string{"192.0.2.1": "cloudflare", "173.245.48.9": "", "151.101.0.9": "fastly", "13.32.0.1": "cloudfront", "203.0.113.7": ""} {
		if got := r.KnownProxy(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is of %q, want %q", text, got, want)
		}
	}
}

func TestResolvingAgainForgetsTheLastRequest(t *testing.T) {
	r := mustNew(t, Config{FromRight: 1, Peers: []string{"private", "unix"}})
	c := weir.Client{APIKey: "k1", Plan: "free"}
	traced := request("@", xff, "1.2.3.4, unknown")
	traced.Trace = true
	r.Resolve(traced, &c)
	r.Resolve(request("10.0.0.1:1", xff, "203.0.113.7"), &c)
	want := resolve(r, request("10.0.0.1:1", xff, "203.0.113.7"))
	want.APIKey, want.Plan = "k1", "free"
	if len(c.Hops) > 0 {
		t.Errorf("steps of the last request: %v", c.Hops)
	}
	c.Hops, want.Hops = nil, nil
	if diff := cmp.Diff(want, c, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheShapeOfAChainIsCountedFromTheRight(t *testing.T) {
	r := mustNew(t, Config{FromRight: 1, Peers: []string{"private"}})
	for _, tc := range []struct {
		lines   []string
		entries uint8
		left    string
	}{
		{[]string{"203.0.113.7"}, 1, ""},
		{[]string{"198.51.100.1, 203.0.113.7"}, 2, "198.51.100.1"},
		{[]string{"198.51.100.1", "203.0.113.7"}, 2, "198.51.100.1"},
		{[]string{"x, 203.0.113.7"}, 2, ""},
		{[]string{"1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4,5.5.5.5,203.0.113.7"}, 6, "5.5.5.5"},
		{[]string{"0.0.0.1,1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4,5.5.5.5,203.0.113.7"}, weir.ManyEntries, "5.5.5.5"},
		{[]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "203.0.113.7"}, weir.ManyEntries, ""},
		{[]string{forged() + "203.0.113.7"}, weir.ManyEntries, "1.2.3.4"},
		{[]string{walls() + "203.0.113.7"}, 2, ""},
	} {
		c := resolve(r, &weir.Request{Peer: netip.MustParseAddr("10.0.0.1"), Header: http.Header{xff: tc.lines}})
		left := ""
		if c.Chain.Left.IsValid() {
			left = c.Chain.Left.String()
		}
		if c.Chain.Entries != tc.entries || left != tc.left {
			t.Errorf("%.40q: %d entries, %q left; want %d, %q", tc.lines, c.Chain.Entries, left, tc.entries, tc.left)
		}
		if long := c.Chain.Codes&weir.ChainLong != 0; long != (tc.entries > 1) {
			t.Errorf("%.40q: chain.long %v", tc.lines, long)
		}
	}
}

func TestNearestIsTheRightmostEntry(t *testing.T) {
	r := mustNew(t, Config{FromRight: 2, Peers: []string{"private"}})
	for header, want := range map[string]string{"1.2.3.4, 203.0.113.7": "203.0.113.7", "1.2.3.4, x": "invalid IP", "": "invalid IP"} {
		if got := r.Nearest(request("10.0.0.1:1", xff, header)).String(); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	if r.Strategy() != "from_right" || r.FromRight() != 2 {
		t.Errorf("%s %d", r.Strategy(), r.FromRight())
	}
}

// An asker cannot make a refusal cost memory, whatever he writes.
func TestNothingThatArrivesAllocates(t *testing.T) {
	for name, bc := range benchCases() {
		r := mustNew(t, bc.cfg)
		req := &weir.Request{Peer: netip.MustParseAddr("10.0.0.1"), Header: bc.header}
		var c weir.Client
		if n := testing.AllocsPerRun(20, func() { r.Resolve(req, &c) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	junk := []string{"fe80::1%zone", "[::1", "1:2:3:4:5:6:7:8:9", "1.2.3.4.5", strings.Repeat(":", 40), `for="1.2.3.\4"`, `for="[2001:db8:1:2:3:4:5:\6]"`}
	for _, cfg := range []Config{{FromRight: 1, Peers: []string{"private"}}, {FromRight: 1, Peers: []string{"private"}, Forwarded: true}} {
		r := mustNew(t, cfg)
		for _, text := range junk {
			req := &weir.Request{Peer: netip.MustParseAddr("10.0.0.1"), Header: http.Header{r.chainName: {text + ", " + text}}}
			var c weir.Client
			if n := testing.AllocsPerRun(20, func() { r.Resolve(req, &c) }); n != 0 {
				t.Errorf("%s: %v allocations, want 0", text, n)
			}
		}
	}
}

// IsPrivate is the word private, at the edges of each of its networks and past them.
func TestPrivateIsWhatTheWordSays(t *testing.T) {
	table := newTable(mustPrefixes(privateRanges), false)
	for _, p := range mustPrefixes(privateRanges) {
		first, last := p.Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if got, want := IsPrivate(a), table.contains(a); got != want {
				t.Errorf("%s: %v, want %v", a, got, want)
			}
		}
	}
}

// No entry that is handed out is longer than what was looked at, however long the header is.
func TestReadingIsBounded(t *testing.T) {
	for _, forwarded := range []bool{false, true} {
		c := cursor{lines: []string{walls() + `"` + walls() + "203.0.113.7"}, forwarded: forwarded}
		for {
			entry, ok := c.next(c.limit())
			if !ok {
				break
			}
			if len(entry) > c.limit()+1 {
				t.Errorf("forwarded %v: an entry of %d bytes, want at most %d", forwarded, len(entry), c.limit()+1)
			}
		}
		if c.read > 2 {
			t.Errorf("forwarded %v: %d entries, want none after the one that is too long", forwarded, c.read)
		}
	}
}

// The zero Resolver takes the peer for the client.
func TestTheZeroResolverIsOfUse(t *testing.T) {
	var r Resolver
	c := resolve(&r, request("[2001:db8:1:2::3]:1", "Accept", "x"))
	if diff := cmp.Diff(answer{"2001:db8:1:2::3", "2001:db8:1:2::/64", "direct"}, answerOf(&c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// One client is a network, but for addresses that stand for one host or one site.
func TestHowWideAClientIs(t *testing.T) {
	for _, tc := range []struct {
		bits4, bits6 int
		addr, want   string
	}{
		{0, 0, "203.0.113.7", "203.0.113.7/32"},
		{24, 0, "203.0.113.7", "203.0.113.0/24"},
		{24, 0, "127.0.0.7", "127.0.0.7/32"},
		{24, 0, "169.254.1.7", "169.254.1.7/32"},
		{0, 0, "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{0, 128, "2001:db8:1:2:3::4", "2001:db8:1:2:3::4/128"},
		{0, 56, "::1", "::1/128"},
		{0, 56, "fe80::1", "fe80::1/128"},
		{0, 56, "fec0::1", "fec0::/56"},
		{0, 56, "64:ff9b::cb00:7107", "64:ff9b::cb00:7107/128"},
		{0, 56, "64:ff9b:1::cb00:7107", "64:ff9b:1::/56"},
		{0, 64, "2002:cb00:7107:1::1", "2002:cb00:7107::/48"},
		{0, 40, "2002:cb00:7107:1::1", "2002:cb00:7100::/40"},
		{0, 64, "2003:cb00:7107:1::1", "2003:cb00:7107:1::/64"},
	} {
		r := mustNew(t, Config{IPv4Prefix: tc.bits4, IPv6Prefix: tc.bits6})
		if got := r.prefix(netip.MustParseAddr(tc.addr)).String(); got != tc.want {
			t.Errorf("%s at /%d and /%d: %s, want %s", tc.addr, tc.bits4, tc.bits6, got, tc.want)
		}
	}
}
