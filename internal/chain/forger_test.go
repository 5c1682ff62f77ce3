package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/chain"
	"github.com/weirgate/weir/policy"
)

// A crowd is who comes to a site, in turn.
type crowd struct {
	name  string
	visit func(i int) visit
}

// invented is an address that a forger writes to the left of his own.
func invented(i int) string { return fmt.Sprintf("1.%d.%d.%d", i%7, i/200, i%200) }

// person is who asks honestly once in seven times.
func person(i int) string { return fmt.Sprintf("198.51.100.%d", i/7%250) }

// among has the forgers send six of seven requests through the proxy at peer, with as many programs as
// agents.
func among(peer string, agents int, forgers ...string) func(int) visit {
	return func(i int) visit {
		if i%7 == 0 {
			return forwarded(peer, person(i), agent(i%25))
		}
		return forwarded(peer, invented(i)+", "+forgers[i%len(forgers)], agent(i%agents))
	}
}

// alone has one client send everything.
func alone(peer, tail string) func(int) visit {
	return func(i int) visit { return forwarded(peer, invented(i)+tail, agent(i%25)) }
}

// forgers are crowds in which one or two clients send what no proxy wrote.
var forgers = []crowd{
	{"one among honest people", among("127.0.0.1:1", 1, "203.0.113.7")},
	{"one with many programs", among("127.0.0.1:1", 25, "203.0.113.7")},
	{"two", among("127.0.0.1:1", 25, "203.0.113.7", "192.0.2.9")},
	{"one in our own network", among("127.0.0.1:1", 25, "192.168.1.7")},
	{"one behind a CDN that anyone can rent", among("127.0.0.1:1", 25, "173.245.48.9")},
	{"one whom nobody else is beside", alone("127.0.0.1:1", ", 203.0.113.7")},
	{"one who goes around the proxy", alone("203.0.113.7:1", "")},
}

// settings are the ways to find clients behind one proxy on the same machine.
var settings = map[string]clientip.Config{
	"from_right":      {FromRight: 1, Peers: []string{"127.0.0.1/32"}},
	"path":            {Path: []clientip.Hop{{Name: "nginx"}}},
	"trusted_proxies": {TrustedProxies: []string{"127.0.0.1/32"}},
	"header":          {Header: "X-Real-IP", Peers: []string{"127.0.0.1/32"}},
	"peer":            {},
}

// No forging client brings about lines that believe more than what is configured: the only ones he can
// bring about mend a proxy's own configuration.
func TestNoForgerBringsAboutAnEditThatWidensTrust(t *testing.T) {
	for setting, cfg := range settings {
		for _, c := range forgers {
			if setting == "peer" && c.name != "one who goes around the proxy" {
				continue // the proxy is the only peer, and not listed: that has a test of its own
			}
			site := newSite(t, cfg)
			site.play(start, 700, c.visit)
			for _, f := range site.monitor.Findings(start) {
				if f.Edit != "" && !strings.HasPrefix(f.Edit, "# nginx") {
					t.Errorf("%s, %s: %s proposes %q", setting, c.name, codes([]chain.Finding{f}), f.Edit)
				}
			}
		}
	}
}

// Long chains say both of what they can mean, and where the proof is.
func TestLongChainsOfAForgerAreExplainedInWords(t *testing.T) {
	site := newSite(t, settings["from_right"])
	site.play(start, 700, among("127.0.0.1:1", 1, "203.0.113.7"))
	want := []chain.Finding{{
		Code: weir.ChainLong, Since: start,
		Text: "85 % of the chains are longer than the configured proxies make them: clients sent such a header themselves, which is not believed, or there is one proxy more; run weir verify, which proves it, before you trust more",
	}}
	if diff := cmp.Diff(want, site.monitor.Findings(start)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A proxy that only proxies can be, with many clients behind it, comes with lines that are accepted as
// they stand; one at a public address of its own cannot be told from a forger.
func TestAnOuterProxyComesWithItsLines(t *testing.T) {
	behind := func(outer string) func(int) visit {
		return func(i int) visit {
			return forwarded("127.0.0.1:1", fmt.Sprintf("203.0.113.%d, %s", i%250, outer), agent(i%25))
		}
	}
	two := 2
	for _, tc := range []struct {
		name  string
		cfg   clientip.Config
		outer string
		want  string
	}{
		{"a position", settings["from_right"], "10.0.0.9", "client:\n  from_right: 2"},
		{"a path", settings["path"], "10.0.0.9", "client:\n  path: [{name: outer, cidrs: [10.0.0.9/32]}, nginx]"},
		{"a path with a hop of its own", clientip.Config{Path: []clientip.Hop{{Name: "edge", CIDRs: []string{"127.0.0.1/32", "::1/128"}, Appends: &two}}},
			"10.0.0.9, 10.0.0.9", `client:
  path: [{name: outer, cidrs: [10.0.0.9/32]}, {name: edge, cidrs: [127.0.0.1/32, "::1/128"], appends: 2}]`},
		{"networks", settings["trusted_proxies"], "10.0.0.9", "client:\n  trusted_proxies: [127.0.0.1/32, 10.0.0.9/32]"},
		{"IPv6", settings["trusted_proxies"], "fd00:0:0:9::1", `client:
  trusted_proxies: [127.0.0.1/32, "fd00:0:0:9::/64"]`},
		{"a CDN before a position", settings["from_right"], "173.245.48.9", "client:\n  from_right: 2"},
		{"a CDN before a path", settings["path"], "173.245.48.9", "client:\n  path: [cloudflare, nginx]"},
		{"a CDN before networks", settings["trusted_proxies"], "173.245.48.9", "client:\n  trusted_proxies: [127.0.0.1/32, cloudflare]"},
		{"a public address", settings["from_right"], "34.120.9.9", ""},
	} {
		site := newSite(t, tc.cfg)
		site.play(start, chain.Enough, behind(tc.outer))
		found := site.monitor.Findings(start)
		if len(found) == 0 {
			t.Errorf("%s: nothing is found", tc.name)
		}
		for _, f := range found {
			if f.Edit != tc.want {
				t.Errorf("%s: %s proposes %q, want %q", tc.name, codes([]chain.Finding{f}), f.Edit, tc.want)
			}
			accepted(t, f.Edit)
		}
	}
}

// accepted fails unless edit can stand in a configuration.
func accepted(t *testing.T, edit string) {
	t.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(edit), nil)
	if cfg != nil {
		_, more := policy.Compile(cfg)
		problems = append(problems, more...)
	}
	for _, p := range problems {
		if !p.Warning {
			t.Errorf("%q is refused: %+v", edit, p)
		}
	}
}

// An outer proxy's lines need that hardly one client in a hundred may be a person.
func TestAnOuterProxyIsSureAtItsEdge(t *testing.T) {
	for direct, want := range map[int]string{10: "client:\n  from_right: 2", 11: ""} {
		site := newSite(t, settings["from_right"])
		site.play(start, 1000+direct, func(i int) visit {
			if i < direct {
				return forwarded("127.0.0.1:1", person(7*i), agent(i%25))
			}
			return forwarded("127.0.0.1:1", fmt.Sprintf("203.0.113.%d, 10.0.0.9", i%250), agent(i%25))
		})
		for _, f := range site.monitor.Findings(start) {
			if f.Code == weir.DepthLow && f.Edit != want {
				t.Errorf("%d persons: %q, want %q", direct, f.Edit, want)
			}
		}
	}
}

// A peer is trusted by lines to paste only where it is a proxy's address and hardly anyone else connects.
func TestAnUnlistedPeerIsAdmittedAtItsEdge(t *testing.T) {
	for _, tc := range []struct {
		name   string
		peer   string
		others int
		want   string
	}{
		{"private", "172.18.0.5", 0, "client:\n  trusted_proxies: [172.18.0.5/32]"},
		{"one other in twenty", "172.18.0.5", 50, "client:\n  trusted_proxies: [172.18.0.5/32]"},
		{"more", "172.18.0.5", 51, ""},
		{"a person's", "203.0.113.7", 0, ""},
	} {
		site := newSite(t, clientip.Config{})
		site.play(start, 1000+tc.others, func(i int) visit {
			if i < tc.others {
				return visit{peer: person(7*i) + ":1", agent: agent(i % 25)}
			}
			return forwarded(tc.peer+":1", invented(i), agent(i%25))
		})
		for _, f := range site.monitor.Findings(start) {
			if f.Code == weir.HeaderUnexpected && f.Edit != tc.want {
				t.Errorf("%s: %q, want %q", tc.name, f.Edit, tc.want)
			}
		}
	}
}
