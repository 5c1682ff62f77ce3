package forwardauth

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// traefik is what the shipped file says of Traefik's middlewares.
type traefik struct {
	HTTP struct {
		Middlewares map[string]struct {
			Headers *struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			}
			ForwardAuth *struct {
				Address             string
				TrustForwardHeader  bool     `yaml:"trustForwardHeader"`
				AuthResponseHeaders []string `yaml:"authResponseHeaders"`
			} `yaml:"forwardAuth"`
			Chain *struct{ Middlewares []string }
		}
		Routers map[string]struct{ Middlewares []string }
	}
}

func shippedTraefik(t *testing.T) traefik {
	t.Helper()
	text, err := os.ReadFile("../../deploy/traefik-forward-auth.yml")
	if err != nil {
		t.Fatal(err)
	}
	var f traefik
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// asks is what Traefik asks about `GET /shut` from 203.0.113.7, which came through a load balancer that it
// trusts with these fields of the client's, as far as docs and source (v3.7, ForwardAuth) tell: with
// trustForwardHeader it keeps the fields that are there, and a custom request header that is empty is
// deleted.
func (f *traefik) asks(t *testing.T, through []string, client http.Header) http.Header {
	t.Helper()
	h := client.Clone()
	for _, name := range through {
		m := f.HTTP.Middlewares[name]
		if m.Headers != nil {
			for field, value := range m.Headers.CustomRequestHeaders {
				if value != "" {
					t.Errorf("%s is set, not deleted", field)
				}
				delete(h, http.CanonicalHeaderKey(field))
			}
		}
		if m.ForwardAuth == nil {
			continue
		}
		fields := http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/shut"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"https"}}
		for field, lines := range fields {
			if !m.ForwardAuth.TrustForwardHeader || h.Get(field) == "" {
				h[field] = lines
			}
		}
		h["X-Forwarded-For"] = []string{"203.0.113.7, 10.0.0.1"}
	}
	return h
}

// Behind a load balancer that Traefik trusts, the shipped strip keeps clients from choosing the rule; without
// it they do, and Weir cannot tell.
func TestTraefikStrip(t *testing.T) {
	f := shippedTraefik(t)
	router := f.HTTP.Routers["service"].Middlewares
	if diff := cmp.Diff([]string{"weir"}, router); diff != "" {
		t.Fatalf("the router's middlewares (-want +got):\n%s", diff)
	}
	stripped := f.HTTP.Middlewares["weir"].Chain.Middlewares
	if got := f.HTTP.Middlewares["weir-ask"].ForwardAuth.Address; !strings.HasSuffix(got, "/auth/traefik") {
		t.Errorf("it asks at %s", got)
	}
	for name, value := range map[string]string{"X-Forwarded-Uri": "/open", "X-Forwarded-Method": "POST", "X-Forwarded-Host": "free.example"} {
		forged := http.Header{name: {value}, "X-Original-Uri": {"/open"}, "X-Real-Ip": {"198.51.100.1"}}
		for _, c := range []struct {
			through []string
			status  int
		}{{stripped, 429}, {[]string{"weir-ask"}, 200}} {
			h := build(t, few+"  - {name: free, host: free.example, path: /shut, exempt: true}\nclient: {path: [{name: lb, cidrs: [10.0.0.0/8]}, traefik]}\n")
			w := h.ask("/auth/traefik", f.asks(t, c.through, forged))
			if w.Code != c.status {
				t.Errorf("%s through %v: HTTP status %d, want %d", name, c.through, w.Code, c.status)
			}
			if got := h.journal.Recent(1)[0].Client; got != "203.0.113.7/32" {
				t.Errorf("%s: the client is %s", name, got)
			}
		}
	}
}

// What the service is told under Weir's names is Weir's: Traefik overwrites what it copies, and the strip
// takes the spellings that it does not.
func TestTraefikTellsTheService(t *testing.T) {
	f := shippedTraefik(t)
	copied := f.HTTP.Middlewares["weir-ask"].ForwardAuth.AuthResponseHeaders
	if diff := cmp.Diff([]string{"X-Weir-Tag", "X-Weir-Shadow", "X-Weir-Key-Id", "X-Weir-Plan"}, copied); diff != "" {
		t.Errorf("it copies (-want +got):\n%s", diff)
	}
	strip := f.HTTP.Middlewares["weir-strip"].Headers.CustomRequestHeaders
	for _, name := range copied {
		if _, ok := strip[strings.ReplaceAll(name, "-", "_")]; !ok {
			t.Errorf("%s passes as %s", name, strings.ReplaceAll(name, "-", "_"))
		}
	}
}
