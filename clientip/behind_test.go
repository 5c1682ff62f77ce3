package clientip

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/weirgate/weir"
)

// What a proxy tells of a request that it holds leads to the client that would have been found behind
// that proxy, by every strategy.
func TestBehind(t *testing.T) {
	const proxy, src = "10.0.0.2", "198.51.100.7"
	none := 0
	tests := map[string]struct {
		cfg      Config
		peer     string
		src      string
		header   http.Header
		want     string
		wantFrom weir.Source
	}{
		"peer":             {Config{}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "198.51.100.7/32", weir.Direct},
		"path":             {Config{Path: []Hop{{Name: "p", CIDRs: []string{"10.0.0.0/8"}}}}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "198.51.100.7/32", weir.Forwarded},
		"path, two hops":   {Config{Path: []Hop{{Name: "lb", CIDRs: []string{"198.51.100.0/24"}}, {Name: "p", CIDRs: []string{"10.0.0.0/8"}}}}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.9, 192.0.2.1"}}, "192.0.2.1/32", weir.Forwarded},
		"path, opaque":     {Config{Path: []Hop{{Name: "lb", CIDRs: []string{"198.51.100.0/24"}}, {Name: "p", CIDRs: []string{"10.0.0.0/8"}, Appends: &none}}}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.1/32", weir.Forwarded},
		"path, header":     {Config{Path: []Hop{{Name: "p", CIDRs: []string{"10.0.0.0/8"}, Header: "X-Real-IP", Appends: &none}}}, proxy, src, http.Header{"X-Real-Ip": {"192.0.2.1"}}, "198.51.100.7/32", weir.FromHeader},
		"path, unlisted":   {Config{Path: []Hop{{Name: "p", CIDRs: []string{"10.0.0.0/8"}}}}, "203.0.113.1", src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "198.51.100.7/32", weir.Direct},
		"trusted":          {Config{TrustedProxies: []string{"10.0.0.0/8"}}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "198.51.100.7/32", weir.Forwarded},
		"trusted, src too": {Config{TrustedProxies: []string{"10.0.0.0/8"}}, proxy, "10.0.0.3", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.1/32", weir.Forwarded},
		"trusted src only": {Config{TrustedProxies: []string{"198.51.100.0/24"}}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.1/32", weir.Forwarded},
		"count":            {Config{FromRight: 1}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "198.51.100.7/32", weir.Forwarded},
		"count of two":     {Config{FromRight: 2}, proxy, src, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "192.0.2.1/32", weir.Forwarded},
		"header":           {Config{Header: "X-Real-IP", Peers: []string{"10.0.0.0/8"}}, proxy, src, http.Header{"X-Real-Ip": {"192.0.2.1"}}, "192.0.2.1/32", weir.FromHeader},
		"header, absent":   {Config{Header: "X-Real-IP", Peers: []string{"10.0.0.0/8"}}, proxy, src, http.Header{}, "198.51.100.7/32", weir.FromHeader},
		"header via":       {Config{Header: "X-Real-IP", Peers: []string{"10.0.0.0/8"}, Via: []string{"198.51.100.0/24"}}, proxy, src, http.Header{"X-Real-Ip": {"192.0.2.1"}}, "192.0.2.1/32", weir.FromHeader},
		"forwarded":        {Config{FromRight: 1, Forwarded: true}, proxy, "2001:db8::7", http.Header{"Forwarded": {"for=192.0.2.1"}}, "2001:db8::/64", weir.Forwarded},
		"no chain":         {Config{FromRight: 1}, proxy, src, http.Header{}, "198.51.100.7/32", weir.Forwarded},
	}
	for name, test := range tests {
		r, problems := New(test.cfg)
		if r == nil {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		req := weir.Request{Peer: netip.MustParseAddr(test.peer), Header: test.header}
		r.Behind(&req, netip.MustParseAddr(test.src))
		var c weir.Client
		if r.Resolve(&req, &c); c.Key() != test.want || c.Source != test.wantFrom {
			t.Errorf("%s: %s, %s; want %s, %s", name, c.Key(), c.Source, test.want, test.wantFrom)
		}
	}
}

// The lines that the caller still holds are not written to.
func TestBehindLeavesLinesAlone(t *testing.T) {
	r, _ := New(Config{FromRight: 1})
	lines := make([]string, 1, 2)
	lines[0] = "192.0.2.1"
	req := weir.Request{Peer: netip.MustParseAddr("10.0.0.2"), Header: http.Header{"X-Forwarded-For": lines}}
	r.Behind(&req, netip.MustParseAddr("198.51.100.7"))
	if got := lines[:2][1]; got != "" {
		t.Errorf("wrote %q behind the caller's lines", got)
	}
}
