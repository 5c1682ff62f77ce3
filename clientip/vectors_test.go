package clientip

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirgate/weir"
)

// A vector is one case of testdata/client-identity.json; CONTRACT Appendix B maps its names.
type vector struct {
	Name       string       `json:"name"`
	RemoteAddr string       `json:"remote_addr"`
	Headers    [][2]string  `json:"headers"`
	Config     vectorConfig `json:"config"`
	Client     *string      `json:"expected_client"`
	Key        string       `json:"expected_key_prefix"`
	Provenance string       `json:"expected_provenance"`
	Never      []string     `json:"never"`
	Diagnostic []string     `json:"expected_diagnostics"`
	Exempt     []string     `json:"exempt"`
	IsExempt   bool         `json:"expected_exempt"`
}

type vectorConfig struct {
	Strategy     string   `json:"strategy"`
	TrustedHops  int      `json:"trusted_hops"`
	TrustedPeers []string `json:"trusted_peers"`
	TrustedCIDRs []string `json:"trusted_cidrs"`
	ViaCIDRs     []string `json:"via_cidrs"`
	Header       string   `json:"header"`
	HeaderFormat string   `json:"header_format"`
	IPv4Prefix   int      `json:"ipv4_prefix"`
	IPv6Prefix   int      `json:"ipv6_prefix"`
}

// resolver compiles the vector's configuration.
func (c vectorConfig) resolver(t *testing.T) *Resolver {
	t.Helper()
	cfg := Config{
		Forwarded: c.Strategy == "forwarded", Header: c.Header, HeaderFormat: c.HeaderFormat,
		Peers: c.TrustedPeers, Via: c.ViaCIDRs, TrustedProxies: c.TrustedCIDRs, FromRight: c.TrustedHops,
		IPv4Prefix: c.IPv4Prefix, IPv6Prefix: c.IPv6Prefix,
		DangerouslyTrustEveryone: slices.Contains(c.TrustedCIDRs, "0.0.0.0/0"),
	}
	return mustNew(t, cfg)
}

func mustNew(t testing.TB, cfg Config) *Resolver {
	t.Helper()
	r, problems := New(cfg)
	if r == nil {
		t.Fatalf("New(%+v): %+v", cfg, problems)
	}
	return r
}

// request builds what a front would hand over.
func (v vector) request() *weir.Request {
	req := &weir.Request{Header: make(http.Header)}
	req.Peer, req.Unix = weir.ParsePeer(v.RemoteAddr)
	for _, h := range v.Headers {
		req.Header.Add(h[0], h[1])
	}
	return req
}

type vectorFile struct {
	Vectors    []vector `json:"vectors"`
	Exemptions []vector `json:"exemption_vectors"`
}

func readVectors(t testing.TB) vectorFile {
	t.Helper()
	text, err := os.ReadFile("testdata/client-identity.json")
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Vectors) != 167 || len(f.Exemptions) != 6 {
		t.Fatalf("%d vectors and %d exemptions, want 167 and 6", len(f.Vectors), len(f.Exemptions))
	}
	return f
}

// An answer is what a vector expects.
type answer struct{ Client, Key, Source string }

func answerOf(c *weir.Client) answer {
	a := answer{Key: c.Key(), Source: c.Source.String()}
	if c.Addr.IsValid() {
		a.Client = c.Addr.String()
	}
	return a
}

func TestEveryVectorResolvesAsExpected(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		t.Run(v.Name, func(t *testing.T) {
			var c weir.Client
			v.Config.resolver(t).Resolve(v.request(), &c)
			want := answer{Key: v.Key, Source: v.Provenance}
			if v.Client != nil {
				want.Client = *v.Client
			}
			if diff := cmp.Diff(want, answerOf(&c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if slices.Contains(v.Never, answerOf(&c).Client) {
				t.Errorf("chose %s, which must never be", c.Addr)
			}
		})
	}
}

// What only a stream of requests can show is the monitor's to say.
var perStream = []string{"client.constant"}

func TestEveryVectorRaisesItsDiagnostics(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		var c weir.Client
		v.Config.resolver(t).Resolve(v.request(), &c)
		got := c.Chain.Codes.Names()
		for _, code := range v.Diagnostic {
			if !slices.Contains(perStream, code) && !slices.Contains(got, code) {
				t.Errorf("%s: codes %v, want %s among them", v.Name, got, code)
			}
		}
	}
}

// Tracing shows the road and never changes where it leads.
func TestATraceChangesNothing(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		r := v.Config.resolver(t)
		var plain, traced weir.Client
		req := v.request()
		r.Resolve(req, &plain)
		req.Trace = true
		r.Resolve(req, &traced)
		if len(traced.Hops) == 0 {
			t.Errorf("%s: no steps", v.Name)
		}
		if len(plain.Hops) != 0 {
			t.Errorf("%s: steps without a trace: %v", v.Name, plain.Hops)
		}
		traced.Hops, plain.Hops = nil, nil
		if diff := cmp.Diff(plain, traced, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s: -plain +traced:\n%s", v.Name, diff)
		}
	}
}

func TestOnlyVouchedClientsAreExempt(t *testing.T) {
	for _, v := range readVectors(t).Exemptions {
		var c weir.Client
		v.Config.resolver(t).Resolve(v.request(), &c)
		exempt := false
		for _, network := range v.Exempt {
			exempt = exempt || c.Vouched() && netip.MustParsePrefix(network).Contains(c.Addr)
		}
		if exempt != v.IsExempt {
			t.Errorf("%s: exempt %v, want %v (%+v)", v.Name, exempt, v.IsExempt, answerOf(&c))
		}
	}
}

func TestNoVectorAllocates(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		r, req := v.Config.resolver(t), v.request()
		var c weir.Client
		if n := testing.AllocsPerRun(20, func() { r.Resolve(req, &c) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", v.Name, n)
		}
	}
}
