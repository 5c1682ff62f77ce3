package clientip

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What is listed is written as YAML reads it again, with the defaults that are in force, and without what
// nothing reads.
func TestListedIsWhatIsTrusted(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nothing", Config{}, nil},
		{"peers that nothing reads", Config{Peers: []string{"private"}}, nil},
		{"networks", Config{TrustedProxies: []string{"10.0.0.0/8", "2001:db8::/32", "cloudflare", "unix"}},
			[]string{"10.0.0.0/8", `"2001:db8::/32"`, "cloudflare", "unix"}},
		{"a position", Config{FromRight: 1, Peers: []string{"127.0.0.1"}}, []string{"127.0.0.1"}},
		{"a position without peers", Config{FromRight: 1}, []string{"private", "unix"}},
		{"a header", Config{Header: "CF-Connecting-IP", Peers: []string{"cloudflare"}}, []string{"cloudflare"}},
		{"a path", Config{Path: []Hop{
			{Name: "akamai", CIDRs: []string{"192.0.2.0/24", "2001:db8::/32"}, Header: "True-Client-IP"},
			{Name: "the: edge", CIDRs: []string{"private"}, Appends: count(2)},
			{Name: "k8s-ingress"},
		}}, []string{
			`{name: akamai, cidrs: [192.0.2.0/24, "2001:db8::/32"], header: True-Client-IP}`,
			`{name: "the: edge", cidrs: [private], appends: 2}`,
			"k8s-ingress",
		}},
	} {
		r, problems := New(tc.cfg)
		if r == nil {
			t.Fatalf("%s: %+v", tc.name, problems)
		}
		if diff := cmp.Diff(tc.want, r.Listed(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.name, diff)
		}
	}
}
