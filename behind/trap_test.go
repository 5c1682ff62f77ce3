package behind_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
)

// A trap is a configuration that looks right, what it does, and what Weir says of it.
type trap struct {
	plan
	// honest and forging are what four requests of the second client get, after three of the first:
	// without a header, and each with another forged address.
	honest, forging string
	codes           []string // in the end, sorted
}

const (
	oneBucket = "429 429 429 429" // everyone shares the first client's count
	ownBucket = "200 200 200 429"
	escapes   = "200 200 200 200" // he is who he says he is
)

// noChain leaves out the line that makes a proxy add the client's address.
var noChain = map[string]func(string) string{
	"nginx":   without("X-Forwarded-For $proxy_add_x_forwarded_for"),
	"haproxy": without("option forwardfor"),
}

var traps = map[string]trap{
	"nginx adds nothing": {
		plan{proxies: []proxy{{kind: "nginx", edit: noChain["nginx"]}}, client: "{path: [nginx]}"},
		oneBucket, escapes, []string{"chain.missing", "header.not_added_by_proxy"},
	},
	"haproxy adds nothing": {
		plan{proxies: []proxy{{kind: "haproxy", edit: noChain["haproxy"]}}, client: "{trusted_proxies: [127.0.0.1/32]}"},
		oneBucket, escapes, []string{"chain.missing", "header.not_added_by_proxy"},
	},
	// Honest requests look as they should, so that nothing shows.
	"haproxy adds only what is not there": {
		plan{proxies: []proxy{{kind: "haproxy", edit: replacing("option forwardfor", "option forwardfor if-none")}}, client: "{path: [haproxy]}"},
		ownBucket, escapes, nil,
	},
	"nobody is configured behind nginx":   {plan{proxies: line("nginx")}, oneBucket, oneBucket, []string{"header.unexpected", "one_client"}},
	"nobody is configured behind haproxy": {plan{proxies: line("haproxy")}, oneBucket, oneBucket, []string{"header.unexpected", "one_client"}},
	"nobody is configured behind caddy":   {plan{proxies: line("caddy")}, oneBucket, oneBucket, []string{"header.unexpected", "one_client"}},
	"one too many from the right": {
		plan{proxies: []proxy{hearing("nginx")}, public: true, client: "{from_right: 2}"},
		oneBucket, escapes, []string{"chain.short", "depth.high"},
	},
	"caddy does not know the proxy in front of it": {
		plan{proxies: []proxy{{kind: "nginx"}, {kind: "caddy"}}, client: "{path: [nginx, caddy]}"},
		oneBucket, oneBucket, []string{"chain.short", "one_client"},
	},
	"one too few from the right": {
		plan{proxies: []proxy{hearing("haproxy"), {kind: "nginx"}}, public: true, client: "{from_right: 1}"},
		oneBucket, oneBucket, []string{"client.private", "depth.low", "one_client"},
	},
	"all is well with public clients": {
		plan{proxies: []proxy{hearing("nginx"), {kind: "haproxy"}}, public: true, client: "{trusted_proxies: [private]}"},
		ownBucket, ownBucket, nil,
	},
	"all is well": {
		plan{proxies: line("haproxy", "nginx"), client: "{path: [haproxy, nginx]}"},
		ownBucket, ownBucket, nil,
	},
}

func TestTraps(t *testing.T) {
	for name, trap := range traps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, trap.plan)
			r.client().statuses(t, 3)
			if got := r.client().four(t, func(int) http.Header { return nil }); got != trap.honest {
				t.Errorf("an honest client: %s, want %s", got, trap.honest)
			}
			forge := func(i int) http.Header { return http.Header{"X-Forwarded-For": {forged(i)}} }
			if got := r.client().four(t, forge); got != trap.forging {
				t.Errorf("a forger: %s, want %s", got, trap.forging)
			}
			r.visit(t)
			r.wantDiagnosis(t, trap.codes)
		})
	}
}

// four asks four times and returns the HTTP statuses.
func (c *client) four(t *testing.T, header func(int) http.Header) string {
	t.Helper()
	var list []string
	for i := range 4 {
		list = append(list, fmt.Sprint(c.get(t, "/", header(i)).status))
	}
	return strings.Join(list, " ")
}

const (
	visitors = 8
	visits   = 30 // of each; a diagnosis takes 200
	agents   = 6
	forgers  = 10 // one in so many requests bears a chain
)

// visit plays a population: some clients, more programs, a few who forge.
func (r *road) visit(t *testing.T) {
	var clients []*client
	for range visitors {
		clients = append(clients, r.client())
	}
	for i := range visitors * visits {
		h := http.Header{"User-Agent": {fmt.Sprint("agent/", i%agents)}}
		if i%forgers == 0 {
			h["X-Forwarded-For"] = []string{forged(i)}
		}
		clients[i%visitors].get(t, "/open/visit", h)
	}
}

// lookEvery is a little more than the time between two looks that Weir takes at its clients.
const lookEvery = 12 * time.Second

// wantDiagnosis waits until exactly these codes are raised, or, where there are none, for so long that
// others would have been.
func (r *road) wantDiagnosis(t *testing.T, codes []string) {
	t.Helper()
	within := 5 * lookEvery // on a machine that is busy
	if codes == nil {
		within = lookEvery
	}
	var diff string
	err := proctest.Await(within, func() error {
		got := r.diagnosis(t)
		if diff = cmp.Diff(codes, got); diff != "" || codes == nil {
			return errNotYet
		}
		return nil
	})
	if err != nil && diff != "" {
		t.Errorf("weir_client_diagnosis, -want +got:\n%s", diff)
	}
}

// diagnosis returns the codes whose gauges are 1.
func (r *road) diagnosis(t *testing.T) []string {
	t.Helper()
	res, err := http.Get("http://" + r.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var codes []string
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		code, ok := strings.CutPrefix(lines.Text(), `weir_client_diagnosis{code="`)
		if code, raised := strings.CutSuffix(code, `"} 1`); ok && raised {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	return codes
}

// A client who could not be found is not passed off as somebody: the upstream hears the peer, and
// that it is not the client if a proxy should have named one.
func TestWhatTheUpstreamHearsOfNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		plan
		want map[string][]string
	}{
		"unresolved": {
			plan{proxies: line("nginx"), client: "{from_right: 2}"},
			map[string][]string{"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "X-Weir-Client": {"unresolved"}},
		},
		"peer only": {
			plan{proxies: []proxy{{kind: "nginx", edit: noChain["nginx"]}}, client: "{from_right: 1}"},
			map[string][]string{"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t, tc.plan).client().get(t, "/open/", nil)
			if diff := cmp.Diff(tc.want, a.told()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
