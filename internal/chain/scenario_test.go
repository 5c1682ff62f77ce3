package chain_test

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/internal/chain"
)

var start = time.Date(2026, 3, 1, 2, 5, 0, 0, time.UTC)

// A scenario is one case of testdata/client-identity.json.
type scenario struct {
	Name     string         `json:"name"`
	Config   scenarioConfig `json:"config"`
	Stream   []stretch      `json:"stream"`
	Expected []string       `json:"expected_codes"`
}

type scenarioConfig struct {
	TrustedHops  int      `json:"trusted_hops"`
	TrustedPeers []string `json:"trusted_peers"`
	TrustedCIDRs []string `json:"trusted_cidrs"`
	Header       string   `json:"header"`
}

type stretch struct {
	Repeat     int         `json:"repeat"`
	RemoteAddr string      `json:"remote_addr"`
	Headers    [][2]string `json:"headers"`
	Agents     int         `json:"distinct_user_agents"`
}

func readScenarios(t *testing.T) []scenario {
	t.Helper()
	text, err := os.ReadFile("testdata/client-identity.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Scenarios []scenario `json:"monitor_scenarios"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Scenarios) != 8 {
		t.Fatalf("%d scenarios, want 8", len(f.Scenarios))
	}
	return f.Scenarios
}

// A site is a resolver with the monitor that watches it.
type site struct {
	resolver *clientip.Resolver
	monitor  *chain.Monitor
}

func newSite(t testing.TB, cfg clientip.Config) site {
	t.Helper()
	r, problems := clientip.New(cfg)
	if r == nil {
		t.Fatalf("New(%+v): %+v", cfg, problems)
	}
	return site{r, chain.New(chain.Config{
		Strategy: r.Strategy(), FromRight: r.FromRight(), Listed: r.Listed(), KnownProxy: r.KnownProxy, Nearest: r.Nearest,
	})}
}

// A visit is one request as the listener sees it.
type visit struct {
	peer, header, value, agent string
}

func (v visit) request() *weir.Request {
	req := &weir.Request{Header: http.Header{}}
	req.Peer, req.Unix = weir.ParsePeer(v.peer)
	if v.value != "" {
		req.Header.Set(v.header, v.value)
	}
	if v.agent != "" {
		req.Header.Set("User-Agent", v.agent)
	}
	return req
}

var clients = maphash.MakeSeed()

// observe shows a request to m.
func observe(m *chain.Monitor, now time.Time, req *weir.Request, c *weir.Client) {
	var s chain.Sight
	d := weir.Decision{At: now, Request: *req, Client: *c}
	var key [64]byte
	m.See(&s, &d, maphash.Bytes(clients, c.AppendKey(key[:0])))
	m.Add(&s)
}

func (s site) see(now time.Time, v visit) {
	req := v.request()
	var c weir.Client
	s.resolver.Resolve(req, &c)
	observe(s.monitor, now, req, &c)
}

// forwarded is a visit through a proxy at peer with that X-Forwarded-For.
func forwarded(peer, chain, agent string) visit {
	return visit{peer: peer, header: "X-Forwarded-For", value: chain, agent: agent}
}

func codes(findings []chain.Finding) []string {
	list := []string{}
	for _, f := range findings {
		list = append(list, f.Code.Names()...)
	}
	return list
}

// cycles says over how many values {i}, {j} and {k} run: clients are many, the edge's addresses
// fewer, and nodes a handful.
var cycles = map[string]int{"{i}": 250, "{j}": 40, "{k}": 5}

func expand(text string, n int) string {
	for name, cycle := range cycles {
		text = strings.ReplaceAll(text, name, fmt.Sprint(1+n%cycle))
	}
	return text
}

func (s scenario) run(site site) time.Time {
	now, n := start, 0
	for _, part := range s.Stream {
		for range part.Repeat {
			v := visit{peer: part.RemoteAddr, agent: fmt.Sprintf("agent/%d", n%max(part.Agents, 1))}
			for _, h := range part.Headers {
				v.header, v.value = h[0], expand(h[1], n)
			}
			site.see(now, v)
			now = now.Add(250 * time.Millisecond)
			n++
		}
	}
	return now
}

// The codes of a scenario are exact, which includes those that it forbids.
func TestEveryScenarioRaisesItsCodes(t *testing.T) {
	for _, s := range readScenarios(t) {
		t.Run(s.Name, func(t *testing.T) {
			site := newSite(t, clientip.Config{
				FromRight: s.Config.TrustedHops, Peers: s.Config.TrustedPeers,
				TrustedProxies: s.Config.TrustedCIDRs, Header: s.Config.Header,
			})
			now := s.run(site)
			got, want := codes(site.monitor.Findings(now)), slices.Sorted(slices.Values(s.Expected))
			slices.Sort(got)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The stream stays what it is when edge addresses are as many as clients.
func TestACDNTakenForClientsIsSeenHoweverManyItsAddresses(t *testing.T) {
	site := newSite(t, clientip.Config{FromRight: 1, Peers: []string{"private"}})
	now := start
	for i := range 400 {
		site.see(now, forwarded("10.0.0.1:1", fmt.Sprintf("203.0.113.%d, 173.245.48.%d", i%250, i%250), fmt.Sprint("agent", i%20)))
	}
	if diff := cmp.Diff([]string{"depth.low"}, codes(site.monitor.Findings(now))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
