package clientip

import (
	"net/netip"
	"testing"
)

// The first trusted address in a network, or around it, is found with the setting that trusts it.
func TestTrustedIn(t *testing.T) {
	two := 2
	configs := map[string]Config{
		"direct":  {},
		"path":    {Path: []Hop{{Name: "cloudflare"}, {Name: "edge", CIDRs: []string{"192.0.2.16/28", "2001:db8:7::/48"}, Appends: &two}}},
		"trusted": {TrustedProxies: []string{"192.0.2.16/28", "unix"}},
		"count":   {FromRight: 1, Peers: []string{"192.0.2.16/28"}},
		"header":  {Header: "X-Real-IP", Peers: []string{"192.0.2.16"}, Via: []string{"2001:db8:7::/48"}},
		"all":     {TrustedProxies: []string{"0.0.0.0/0"}, DangerouslyTrustEveryone: true},
	}
	for _, test := range []struct{ config, network, at, setting string }{
		{"direct", "0.0.0.0/0", "", ""},
		{"path", "192.0.2.15/32", "", ""}, {"path", "192.0.2.32/27", "", ""}, // the neighbours
		{"path", "192.0.2.16/32", "192.0.2.16", "client.path (edge)"}, {"path", "192.0.2.31/32", "192.0.2.31", "client.path (edge)"},
		{"path", "192.0.2.0/24", "192.0.2.16", "client.path (edge)"}, {"path", "192.0.0.0/8", "192.0.2.16", "client.path (edge)"},
		{"path", "2001:db8:7:8::/64", "2001:db8:7:8::", "client.path (edge)"}, {"path", "2001:db8::/32", "2001:db8:7::", "client.path (edge)"},
		{"path", "2001:db8:8::/48", "", ""}, {"path", "2606:4700::/32", "2606:4700::", "client.path (cloudflare)"},
		{"trusted", "192.0.2.20/32", "192.0.2.20", "client.trusted_proxies"}, {"trusted", "::/0", "", ""},
		{"count", "192.0.2.20/32", "192.0.2.20", "client.peers"},
		{"header", "192.0.2.0/24", "192.0.2.16", "client.peers"}, {"header", "2001:db8:7::1/128", "2001:db8:7::1", "client.via"},
		{"all", "192.0.2.0/24", "", ""},
	} {
		r, problems := New(configs[test.config])
		if r == nil {
			t.Fatal(test.config, problems)
		}
		at, setting, ok := r.TrustedIn(netip.MustParsePrefix(test.network))
		got := ""
		if at.IsValid() {
			got = at.String()
		}
		if test.setting == "" {
			got = ""
		}
		if got != test.at || ok != (test.setting != "") || ok && setting != test.setting {
			t.Errorf("%s, %s: %v %s %v, want %s %s", test.config, test.network, at, setting, ok, test.at, test.setting)
		}
	}
}
