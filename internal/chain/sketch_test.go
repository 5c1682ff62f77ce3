package chain

import (
	"hash/maphash"
	"net/netip"
	"testing"
)

func TestDistinctIsExactWhileFewAndCloseWhenMany(t *testing.T) {
	seed := maphash.MakeSeed()
	for _, n := range []int{0, 1, 5, maxExact - 1, maxExact, 200, 1000} {
		var d distinct
		for range 3 {
			for i := range n {
				d.add(maphash.Comparable(seed, i))
			}
		}
		got := d.count()
		if n < maxExact && got != n {
			t.Errorf("%d, want exactly %d", got, n)
		}
		if diff := got - n; diff < -n/5 || diff > n/5 {
			t.Errorf("%d, want about %d", got, n)
		}
	}
}

func TestNoValueIsNotCounted(t *testing.T) {
	var d distinct
	d.add(0)
	if d.count() != 0 {
		t.Errorf("%d, want 0", d.count())
	}
}

// What comes often is found among any number of values that do not, and never counted too high.
func TestTopFindsWhatComesOften(t *testing.T) {
	common := netip.MustParsePrefix("192.0.2.1/32")
	var counted top
	for i := range 1000 {
		counted.add(uint64(1000+i), netip.MustParsePrefix("198.51.100.0/24"))
		counted.add(1, common)
	}
	network, n := counted.first()
	if network != common || n > 1000 || n < 900 {
		t.Errorf("%s %d times, want %s about 1000 times and no more", network, n, common)
	}
	if got := counted.networks(2000); len(got) != 1 || got[0] != common {
		t.Errorf("%v, want %s alone", got, common)
	}
	if !counted.dropped {
		t.Error("1001 values found a place")
	}
}

func TestAddressesAreMaskedUnlessTheyArePrivate(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.77/32": "somewhere in 203.0.113.0/24", "2001:db8:1:2::/64": "somewhere in 2001:db8:1::/48", "203.0.0.0/16": "somewhere in 203.0.0.0/16",
		"10.0.0.9/32": "10.0.0.9", "10.0.0.0/24": "10.0.0.0/24", "100.64.0.1/32": "100.64.0.1",
	} {
		if got := maskNetwork(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := maskNetwork(netip.Prefix{}); got != "without an address" {
		t.Error(got)
	}
}

func TestSharesAreNeverRoundedToNothing(t *testing.T) {
	for _, tc := range []struct {
		n, all int
		want   string
	}{{0, 10, "0 %"}, {1, 1000, "under 1 %"}, {10, 1000, "1 %"}, {5, 5, "100 %"}, {0, 0, "0 %"}} {
		if got := percent(tc.n, tc.all); got != tc.want {
			t.Errorf("%d of %d: %q, want %q", tc.n, tc.all, got, tc.want)
		}
	}
}
