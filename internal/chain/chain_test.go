package chain_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/internal/chain"
)

var (
	oneProxy  = clientip.Config{FromRight: 1, Peers: []string{"private"}}
	twoTrust  = clientip.Config{FromRight: 2, Peers: []string{"private"}}
	walk      = clientip.Config{TrustedProxies: []string{"10.0.0.0/8"}}
	cdnNginx  = clientip.Config{Path: []clientip.Hop{{Name: "cloudflare"}, {Name: "nginx"}}}
	nginxOnly = clientip.Config{Path: []clientip.Hop{{Name: "nginx"}}}
)

func agent(i int) string { return fmt.Sprint("agent/", i) }

func wantCodes(t *testing.T, got []chain.Finding, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, codes(got), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Populations that are as they should be raise nothing.
func TestWhatIsHealthyRaisesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		name  string
		cfg   clientip.Config
		visit func(i int) visit
	}{
		{"one developer, no proxy", clientip.Config{}, func(i int) visit { return visit{peer: "127.0.0.1:1", agent: agent(0)} }},
		{"one developer behind nginx", nginxOnly, func(i int) visit { return forwarded("127.0.0.1:1", "127.0.0.1", agent(0)) }},
		{"one developer with curl and three browsers", nginxOnly, func(i int) visit { return forwarded("127.0.0.1:1", "192.168.1.7", agent(i%4)) }},
		{"an IPv6 population", oneProxy, func(i int) visit {
			return forwarded("10.0.0.1:1", fmt.Sprintf("2001:db8:%x:%x::%x", i%200, i%7, random.Uint32()&0xffff), agent(i%30))
		}},
		{"a local network with as many programs as machines", nginxOnly, func(i int) visit {
			return forwarded("10.0.0.1:1", fmt.Sprintf("192.168.1.%d", 1+i%12), agent(i%12))
		}},
		{"a local network and the internet", nginxOnly, func(i int) visit {
			if i%3 == 0 {
				return forwarded("10.0.0.1:1", fmt.Sprintf("192.168.1.%d", 1+i%40), agent(i%25))
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}},
		{"some clients behind proxies of their own", oneProxy, func(i int) visit {
			if i%5 == 0 {
				return forwarded("10.0.0.1:1", fmt.Sprintf("192.168.0.%d, 203.0.113.%d", i%99, i%200), agent(i%25))
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}},
		{"a CDN and nginx, with forgers", cdnNginx, func(i int) visit {
			if i%10 == 0 {
				return forwarded("10.0.0.1:1", fmt.Sprintf("1.2.3.%d, 203.0.113.%d, 173.245.48.%d", i%250, i%200, i%9), agent(i%25))
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d, 173.245.48.%d", i%200, i%9), agent(i%25))
		}},
		{"the internet itself, some of it with chains", clientip.Config{}, func(i int) visit {
			v := visit{peer: fmt.Sprintf("203.0.113.%d:1", i%200), agent: agent(i % 25)}
			if i%4 == 0 {
				v.header, v.value = "X-Forwarded-For", "192.168.1.7"
			}
			return v
		}},
		{"a few who go around the proxy and forge", oneProxy, func(i int) visit {
			if i%50 == 0 {
				return forwarded("198.51.100.66:1", "1.2.3.4", agent(0))
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}},
		{"health checks that are fewer than one in a hundred", oneProxy, func(i int) visit {
			if i%150 == 149 {
				return visit{peer: "10.0.0.1:1", agent: "probe"}
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}},
		{"internal services among trusted networks", walk, func(i int) visit {
			return forwarded("10.0.0.1:1", fmt.Sprintf("10.0.7.%d, 10.0.0.9", i%5), agent(i%25))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			site := newSite(t, tc.cfg)
			for i := range 600 {
				site.see(start, tc.visit(i))
			}
			wantCodes(t, site.monitor.Findings(start))
		})
	}
}

// Pictures that are wrong, beyond the scenarios.
func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cfg   clientip.Config
		visit func(i int) visit
		want  []string
	}{
		{"a number that is too high", twoTrust, func(i int) visit {
			if i%20 == 0 {
				return forwarded("10.0.0.1:1", fmt.Sprintf("1.2.3.4, 203.0.113.%d", i%200), agent(i%25))
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}, []string{"chain.short", "one_client", "depth.high"}},
		{"an edge that is bypassed now and then", twoTrust, func(i int) visit {
			if i%100 == 0 {
				return forwarded("10.0.0.1:1", "198.51.100.66", agent(i%25))
			}
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d, 173.245.48.%d", i%200, i%9), agent(i%25))
		}, []string{"chain.short"}},
		{"a load balancer's own address, one program", oneProxy, func(i int) visit {
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d, 34.120.9.9", i%200), agent(0))
		}, []string{"chain.long", "client.constant"}},
		{"a proxy that hides its clients", oneProxy, func(i int) visit { return forwarded("10.0.0.1:1", "unknown", agent(i%25)) },
			[]string{"chain.invalid_entry", "one_client"}},
		{"a CDN that is not listed", walk, func(i int) visit {
			return forwarded(fmt.Sprintf("173.245.48.%d:1", i%9), fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}, []string{"peer.unlisted_proxy"}},
		{"strangers who forge", walk, func(i int) visit {
			return forwarded(fmt.Sprintf("198.51.100.%d:1", i%9), fmt.Sprintf("1.2.3.%d", i%200), agent(i%25))
		}, []string{"peer.untrusted_with_header"}},
		{"a unix socket that is not trusted", walk, func(i int) visit { return forwarded("@", fmt.Sprintf("203.0.113.%d", i%200), agent(i%3)) },
			[]string{"peer.unix_untrusted"}},
		{"everyone trusted", clientip.Config{TrustedProxies: []string{"0.0.0.0/0"}, DangerouslyTrustEveryone: true}, func(i int) visit {
			return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
		}, []string{"config.trusts_everyone"}},
		{"a header twice", clientip.Config{Header: "X-Real-IP", Peers: []string{"private"}}, func(i int) visit {
			return visit{peer: "10.0.0.1:1", header: "X-Real-IP", value: "1.2.3.4, 203.0.113.7", agent: agent(i % 3)}
		}, []string{"header.duplicate"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			site := newSite(t, tc.cfg)
			for i := range 600 {
				site.see(start, tc.visit(i))
			}
			wantCodes(t, site.monitor.Findings(start), tc.want...)
		})
	}
}

// One key has at least 95 % of at least 200 requests with 5 or more user agents.
func TestOneClientAtItsEdges(t *testing.T) {
	for _, tc := range []struct {
		requests, others, agents int
		want                     []string
	}{
		{199, 0, 5, nil},
		{200, 0, 5, []string{"one_client"}},
		{200, 10, 5, []string{"one_client"}},
		{200, 11, 5, nil},
		{200, 0, 4, nil},
		{2000, 100, 5, []string{"one_client"}},
		{2000, 101, 5, nil},
	} {
		site := newSite(t, oneProxy)
		for i := range tc.requests {
			client := "203.0.113.7"
			if i < tc.others {
				client = fmt.Sprintf("198.51.%d.%d", i/200, i%200)
			}
			site.see(start, forwarded("10.0.0.1:1", client, agent(i%tc.agents)))
		}
		t.Run(fmt.Sprint(tc.requests, tc.others, tc.agents), func(t *testing.T) {
			wantCodes(t, site.monitor.Findings(start), tc.want...)
		})
	}
}

func missing(i int) visit { return visit{peer: "10.0.0.1:1", agent: agent(0)} }

func healthy(i int) visit {
	return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
}

func (s site) play(now time.Time, n int, visit func(int) visit) {
	for i := range n {
		s.see(now, visit(i))
	}
}

// A finding holds until a window that saw enough says otherwise.
func TestAFindingHoldsUntilAWindowSaysOtherwise(t *testing.T) {
	site := newSite(t, oneProxy)
	site.play(start, chain.Enough-1, missing)
	wantCodes(t, site.monitor.Findings(start))
	site.play(start, 1, missing)
	wantCodes(t, site.monitor.Findings(start), "chain.missing")

	last := start.Add(chain.Window - time.Nanosecond)
	wantCodes(t, site.monitor.Findings(last), "chain.missing")
	next := start.Add(chain.Window)
	site.play(next, chain.Enough-1, healthy)
	wantCodes(t, site.monitor.Findings(next), "chain.missing")
	quiet := next.Add(10 * chain.Window)
	wantCodes(t, site.monitor.Findings(quiet), "chain.missing")
	site.play(quiet, chain.Enough, healthy)
	wantCodes(t, site.monitor.Findings(quiet))
}

func TestAFindingKeepsItsBeginning(t *testing.T) {
	site := newSite(t, oneProxy)
	for i := range 3 {
		now := start.Add(time.Duration(i) * chain.Window)
		site.play(now, chain.Enough, missing)
		got := site.monitor.Findings(now)
		if len(got) != 1 || !got[0].Since.Equal(start) {
			t.Errorf("window %d: %+v, want one finding since %s", i, got, start)
		}
	}
}

// The path to the service changed between two windows, with no change of configuration.
func TestAChangeBetweenWindowsIsSeen(t *testing.T) {
	site := newSite(t, walk)
	site.play(start, 300, healthy)
	wantCodes(t, site.monitor.Findings(start))
	next := start.Add(chain.Window)
	site.play(next, 300, func(i int) visit {
		return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d, 10.0.0.9", i%200), agent(i%25))
	})
	wantCodes(t, site.monitor.Findings(next), "chain.mode_changed")
	if text := site.monitor.Findings(next)[0].Text; !strings.Contains(text, "had 1 entry and have 2 entries since 02:10 UTC") {
		t.Error(text)
	}
}

// What an operator reads names what to paste, and no client.
func TestWordsNameTheCureAndNoClient(t *testing.T) {
	site := newSite(t, walk)
	site.play(start, 300, func(i int) visit {
		return forwarded("172.18.0.5:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25))
	})
	want := []chain.Finding{{
		Code: weir.PeerUnlistedProxy, Since: start,
		Text: "100 % of the requests come from 172.18.0.5, not configured as a proxy, and bear headers that proxies add: probably a proxy of yours, whose clients all count as one",
		Edit: "client:\n  trusted_proxies: [10.0.0.0/8, 172.18.0.5/32]",
	}}
	if diff := cmp.Diff(want, site.monitor.Findings(start)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	site = newSite(t, oneProxy)
	site.play(start, 300, func(i int) visit { return forwarded("10.0.0.1:1", "203.0.113.77", agent(i%25)) })
	for _, f := range site.monitor.Findings(start) {
		if strings.Contains(f.Text, "203.0.113.77") || !strings.Contains(f.Text, "203.0.113.0/24") {
			t.Error(f.Text)
		}
	}
}

// Everyone in one bucket comes with the lines that take them apart, whatever the way clients are found,
// but none where the one may be a person.
func TestOneClientNamesItsCure(t *testing.T) {
	header := "# nginx, also where auth_request asks:\nproxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
	plain := func(peer string) func(i int) visit {
		return func(i int) visit { return visit{peer: peer + ":1", agent: agent(i % 25)} }
	}
	chained := func(value string) func(i int) visit {
		return func(i int) visit { return forwarded("10.0.0.1:1", value, agent(i%25)) }
	}
	for _, tc := range []struct {
		name  string
		cfg   clientip.Config
		visit func(i int) visit
		want  string
	}{
		{"nothing configured", clientip.Config{}, plain("10.0.0.9"), "client:\n  trusted_proxies: [10.0.0.9/32]"},
		{"nothing configured, a public peer", clientip.Config{}, plain("203.0.113.9"), ""},
		{"an unlisted proxy", walk, chained("172.18.0.5"), "client:\n  trusted_proxies: [10.0.0.0/8, 172.18.0.5/32]"},
		{"all are ours", walk, chained("10.0.0.7"), header},
		{"a position", oneProxy, chained("203.0.113.9"), ""},
		{"a position that is too high", twoTrust, chained("203.0.113.9"), "client:\n  from_right: 1"},
		{"no address", oneProxy, chained("unknown"), header},
		{"no header", oneProxy, plain("10.0.0.1"), header},
		{"a path", nginxOnly, chained("203.0.113.9"), ""},
		{"a header", clientip.Config{Header: "X-Real-IP", Peers: []string{"private"}}, func(i int) visit {
			return visit{peer: "10.0.0.1:1", header: "X-Real-IP", value: "203.0.113.9", agent: agent(i % 25)}
		}, ""},
	} {
		site := newSite(t, tc.cfg)
		site.play(start, chain.Enough, tc.visit)
		got := "no one_client"
		for _, f := range site.monitor.Findings(start) {
			if f.Code == weir.OneClient {
				got = f.Edit
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The cure for trusting everyone takes the place of what is there: beside it, everyone would stay trusted.
func TestTrustingEveryoneNamesItsCure(t *testing.T) {
	everyone := []string{"0.0.0.0/0"}
	for _, tc := range []struct {
		cfg  clientip.Config
		want string
	}{
		{clientip.Config{TrustedProxies: everyone}, "client:\n  trusted_proxies: [private]"},
		{clientip.Config{FromRight: 1, Peers: everyone}, "client:\n  peers: [private]"},
		{clientip.Config{Header: "X-Real-IP", Peers: everyone}, "client:\n  peers: [private]"},
		{clientip.Config{Path: []clientip.Hop{{Name: "edge", CIDRs: everyone}}}, "client:\n  path: [{name: proxy, cidrs: [private]}]"},
	} {
		tc.cfg.DangerouslyTrustEveryone = true
		site := newSite(t, tc.cfg)
		site.play(start, chain.Enough, func(i int) visit { return forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d", i%200), agent(i%25)) })
		got := "no config.trusts_everyone"
		for _, f := range site.monitor.Findings(start) {
			if f.Code == weir.ConfigTrustsEveryone {
				got = f.Edit
			}
		}
		if got != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.cfg, got, tc.want)
		}
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	site := newSite(t, twoTrust)
	req := forwarded("10.0.0.1:1", "198.51.100.1, 203.0.113.7, 10.0.0.9", "agent").request()
	d, s := weir.Decision{At: start, Request: *req}, new(chain.Sight)
	site.resolver.Resolve(req, &d.Client)
	see := func() {
		site.monitor.See(s, &d, 1)
		site.monitor.Add(s)
	}
	if n := testing.AllocsPerRun(500, see); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Requests come from everywhere at once while somebody reads.
func TestManyMayObserveAtOnce(t *testing.T) {
	site := newSite(t, oneProxy)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				site.see(start.Add(time.Duration(i)*time.Millisecond), healthy(g*500+i))
				if i%100 == 0 {
					site.monitor.Findings(start)
				}
			}
		})
	}
	wg.Wait()
	wantCodes(t, site.monitor.Findings(start))
}

func BenchmarkSeeAndAdd(b *testing.B) {
	site := newSite(b, oneProxy)
	decisions := make([]weir.Decision, 512)
	for i := range decisions {
		d := &decisions[i]
		d.At, d.Request = start, *forwarded("10.0.0.1:1", fmt.Sprintf("1.2.3.4, 203.%d.113.%d", i/200, i%200), "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"+agent(i%40)).request()
		site.resolver.Resolve(&d.Request, &d.Client)
	}
	for name, m := range map[string]*chain.Monitor{"bare": chain.New(chain.Config{}), "whole": site.monitor} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var s chain.Sight
			for i := 0; b.Loop(); i++ {
				m.See(&s, &decisions[i%512], uint64(i%512)*0x9e3779b97f4a7c15)
				m.Add(&s)
			}
		})
	}
}

// A monitor that is told nothing of CDNs works without.
func TestAMonitorNeedsNoHelp(t *testing.T) {
	m := chain.New(chain.Config{FromRight: 2, Strategy: "from_right"})
	req := &weir.Request{Peer: netip.MustParseAddr("10.0.0.1")}
	for range chain.Enough {
		observe(m, start, req, &weir.Client{Source: weir.Unresolved, Chain: weir.Chain{Codes: weir.ChainShort, Entries: 1}})
	}
	wantCodes(t, m.Findings(start), "chain.short")
}
