package journal

import (
	"net/netip"
	"regexp"
	"testing"

	"github.com/weirgate/weir"
)

func TestMasking(t *testing.T) {
	known := func(prefix string) weir.Client {
		p := netip.MustParsePrefix(prefix)
		return weir.Client{Addr: p.Addr(), Prefix: p}
	}
	for _, c := range []struct {
		name         string
		client       weir.Client
		full, masked string
	}{
		{"IPv4", known("203.0.113.7/32"), "203.0.113.7/32", "203.0.113.0/24"},
		{"wide IPv4", known("203.0.0.0/16"), "203.0.0.0/16", "203.0.0.0/16"},
		{"IPv6", known("2001:db8:1:2::/64"), "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"whole IPv6", known("2001:db8:1:2::3/128"), "2001:db8:1:2::3/128", "2001:db8:1::/48"},
		{"wide IPv6", known("2001:db8::/32"), "2001:db8::/32", "2001:db8::/32"},
		{
			"unresolved", weir.Client{Source: weir.Unresolved, Via: netip.MustParseAddr("10.1.2.3")},
			"unresolved:10.1.2.3", "unresolved:10.1.2.0/24",
		},
		{
			"unresolved IPv6", weir.Client{Source: weir.Unresolved, Via: netip.MustParseAddr("2001:db8:1:2::3")},
			"unresolved:2001:db8:1:2::3", "unresolved:2001:db8:1::/48",
		},
		{"unix socket", weir.Client{Source: weir.Unresolved, ViaUnix: true}, "unresolved:unix", "unresolved:unix"},
		{"no address", weir.Client{Source: weir.Unresolved}, "unresolved:none", "unresolved:none"},
	} {
		for mode, want := range map[Addresses]string{Full: c.full, Masked: c.masked, "": c.masked, "unknown": c.masked} {
			if got := newMasker(mode).client(&c.client); got != want {
				t.Errorf("%s, %q: written %s, want %s", c.name, mode, got, want)
			}
		}
	}
}

// One client has one hash in one process and another in the next; two clients have two.
func TestHashing(t *testing.T) {
	a := weir.Client{Prefix: netip.MustParsePrefix("203.0.113.7/32")}
	b := weir.Client{Prefix: netip.MustParsePrefix("203.0.113.8/32")}
	m, next := newMasker(Hashed), newMasker(Hashed)
	if got := m.client(&a); !regexp.MustCompile(`^hash:[0-9a-f]{16}$`).MatchString(got) || got != m.client(&a) {
		t.Errorf("written %s and %s, want one hash of 16 digits", got, m.client(&a))
	}
	if m.client(&a) == m.client(&b) || m.client(&a) == next.client(&a) {
		t.Errorf("%s, %s and, in another process, %s: want three hashes", m.client(&a), m.client(&b), next.client(&a))
	}
}
