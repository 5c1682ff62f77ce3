package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// The counters of a client alone are those that its own requests charge, and no others.
func TestClientHits(t *testing.T) {
	p := policyOf(t, `
limits:
  - {name: everyone, rate: 100/1s, per: global}
  - {name: each, rate: 50/1m, per: ip}
rules:
  - {name: a, path: /a, limits: [{rate: 5/1m}, {name: by_path, rate: 9/1m, per: [ip, path]}, {name: by_rule, rate: 7/1m, per: [client, rule]}]}
  - {name: b, path: /b, limits: [{name: by_header, rate: 5/1m, per: "header:X-A"}, {name: quota, quota: 100/day, timezone: Asia/Tokyo}]}
  - {name: free, path: /free, exempt: true}
`)
	for _, key := range []string{"203.0.113.9/32", "2001:db8:1:2::/64", "unresolved:10.0.0.1"} {
		c, ok := weir.ParseKey(key)
		if !ok {
			t.Fatal(key)
		}
		got := map[string]string{}
		for _, h := range p.ClientHits(c) {
			if _, twice := got[h.Limit.Name]; twice || h.N != 0 {
				t.Errorf("%s: %s twice, or no look: %d", key, h.Limit.Name, h.N)
			}
			got[h.Limit.Name] = string(h.Key)
		}
		want := map[string]string{}
		for _, path := range []string{"/a", "/b", "/other"} {
			d := &weir.Decision{Request: request(path), Client: c}
			r := p.Match(d)
			r.Hits(d)
			for i, h := range d.Hits {
				if h.Limit.Name == "each" || h.Limit.Name == "by_rule" || h.Limit.Name == "quota" || h.Limit.Name == "default" || h.Limit.Name == "a/5/1m/client" {
					want[h.Limit.Name] = string(d.Hits[i].Key)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 5 {
			t.Errorf("%s: -want +got:\n%s", key, diff)
		}
	}
}
