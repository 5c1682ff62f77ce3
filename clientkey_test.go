package weir_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirgate/weir"
)

func TestParseKeyIsTheInverse(t *testing.T) {
	addr := netip.MustParseAddr
	direct := func(text string) weir.Client {
		p := netip.MustParsePrefix(text)
		return weir.Client{Prefix: p, Addr: p.Addr()}
	}
	for text, want := range map[string]weir.Client{
		"203.0.113.7/32":         direct("203.0.113.7/32"),
		"203.0.113.0/24":         direct("203.0.113.0/24"),
		"2001:db8:1:2::/64":      direct("2001:db8:1:2::/64"),
		"::1/128":                direct("::1/128"),
		"unresolved:10.0.0.1":    {Source: weir.Unresolved, Via: addr("10.0.0.1")},
		"unresolved:2001:db8::1": {Source: weir.Unresolved, Via: addr("2001:db8::1")},
		"unresolved:unix":        {Source: weir.Unresolved, ViaUnix: true},
		"unresolved:none":        {Source: weir.Unresolved},
	} {
		got, ok := weir.ParseKey(text)
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); !ok || diff != "" || got.Key() != text {
			t.Errorf("%s: %v, key %s, -want +got:\n%s", text, ok, got.Key(), diff)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, text := range []string{"", "203.0.113.7", "203.0.113.7/24", "203.0.113.7/33", "::ffff:203.0.113.7/128", "fe80::1%eth0/128",
		"2001:DB8::/64x", "unresolved:", "unresolved:nobody", "unresolved:010.0.0.1", "unresolved:2001:0db8::1", "key"} {
		if c, ok := weir.ParseKey(text); ok {
			t.Errorf("%q is a key, of %+v", text, c)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("203.0.113.7/32")
	f.Add("unresolved:2001:db8::1")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := weir.ParseKey(text)
		if !ok {
			return
		}
		again, ok := weir.ParseKey(c.Key())
		if !ok || again.Key() != c.Key() {
			t.Errorf("%q: key %q is read as %q", text, c.Key(), again.Key())
		}
	})
}
