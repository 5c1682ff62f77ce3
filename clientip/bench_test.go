package clientip

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirgate/weir"
)

// forged is 60 KB of addresses that an asker might send before what his proxy appends.
func forged() string { return strings.Repeat("1.2.3.4, ", 60<<10/9) }

// walls is 60 KB without a single comma to stop at.
func walls() string { return strings.Repeat("x", 60<<10) + ", " }

// manyNetworks returns n networks that do not touch and hold neither client nor proxy.
func manyNetworks(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%d.%d.%d.0/25", 20+i/65536, i/256%256, i%256)
	}
	return list
}

func benchCases() map[string]struct {
	cfg    Config
	header http.Header
} {
	type c = struct {
		cfg    Config
		header http.Header
	}
	xff := func(s string) http.Header {
		return http.Header{"X-Forwarded-For": {s}, "User-Agent": {"bench"}, "Accept": {"*/*"}}
	}
	one := Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}}
	walk := Config{TrustedProxies: append(manyNetworks(24), "10.0.0.0/8")}
	thousand := Config{TrustedProxies: append(manyNetworks(999), "10.0.0.0/8")}
	path := Config{Path: []Hop{{Name: "cloudflare"}, {Name: "nginx"}}}
	return map[string]c{
		"peer":                {Config{}, xff("203.0.113.7")},
		"one hop":             {one, xff("203.0.113.7")},
		"one hop prepended":   {one, xff("1.2.3.4, 203.0.113.7")},
		"one hop forged":      {one, xff(forged() + "203.0.113.7")},
		"one hop walled":      {one, xff(walls() + "203.0.113.7")},
		"one hop IPv6":        {one, xff("2001:db8:1:2:3:4:5:6")},
		"walk 25":             {walk, xff("203.0.113.7, 10.0.0.9, 10.0.0.8")},
		"walk 25 forged":      {walk, xff(forged() + "203.0.113.7, 10.0.0.9, 10.0.0.8")},
		"walk 1000":           {thousand, xff("203.0.113.7, 10.0.0.9, 10.0.0.8")},
		"path":                {path, xff("203.0.113.7, 173.245.48.9")},
		"path forged":         {path, xff(forged() + "203.0.113.7, 173.245.48.9")},
		"forwarded":           {Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}, Forwarded: true}, http.Header{"Forwarded": {"for=203.0.113.7;proto=https"}}},
		"forwarded walled":    {Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}, Forwarded: true}, http.Header{"Forwarded": {walls() + "for=203.0.113.7;proto=https"}}},
		"header":              {Config{Header: "CF-Connecting-IP", Peers: []string{"10.0.0.0/8"}}, http.Header{"Cf-Connecting-Ip": {"203.0.113.7"}}},
		"unresolved, all bad": {one, xff(walls() + "nonsense")},
	}
}

func BenchmarkResolve(b *testing.B) {
	for name, bc := range benchCases() {
		b.Run(name, func(b *testing.B) {
			r := mustNew(b, bc.cfg)
			req := &weir.Request{Peer: netip.MustParseAddr("10.0.0.1"), Header: bc.header}
			var c weir.Client
			b.ReportAllocs()
			for b.Loop() {
				r.Resolve(req, &c)
			}
		})
	}
}

func BenchmarkIsIdentity(b *testing.B) {
	r := mustNew(b, Config{})
	for _, name := range []string{"X-Forwarded-For", "Accept-Encoding"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.IsIdentity(name)
			}
		})
	}
}
