package envoyrls

import (
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// The store key of Compat is envoyproxy/ratelimit's, letter by letter.
func TestCompatKey(t *testing.T) {
	long := strings.Repeat("v", longestKey)
	for _, c := range []struct {
		prefix string
		k      keyed
		want   string
	}{
		{"", keyed{domain: "d", limit: &weir.Limit{Window: time.Second}, entries: []descriptors.Entry{entry("k", "v")}}, "d_k_v_1772625600"},
		{"p:", keyed{domain: "d", limit: &weir.Limit{Window: 24 * time.Hour}, entries: []descriptors.Entry{entry("k", ""), entry("l_", "_")}}, "p:d_k__l____1772582400"},
		{"", keyed{domain: "d", limit: &weir.Limit{Window: 365 * 24 * time.Hour}}, "d_1766016000"},
		{"", keyed{domain: "d", limit: &weir.Limit{Window: time.Minute}, entries: []descriptors.Entry{entry("", long[:longestKey-4])}}, "d__" + long[:longestKey-4] + "_1772625600"},
		{"p:", keyed{domain: "d", limit: &weir.Limit{Window: time.Minute}, entries: []descriptors.Entry{entry("", long[:longestKey-3])}}, "p:sha256:"},
	} {
		c.k.at = noon.Add(999 * time.Millisecond)
		got := string(appendCompatKey([]byte("before"), c.prefix, c.k)[len("before"):])
		if got != c.want && !(strings.HasSuffix(c.want, "sha256:") && strings.HasPrefix(got, c.want) && len(got) == len(c.want)+64+len("_1772625600")) {
			t.Errorf("%.80s, want %.80s", got, c.want)
		}
	}
}

func TestWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, time.Hour: 3600} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
