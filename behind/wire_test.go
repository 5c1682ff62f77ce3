package behind_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
)

// The ways from the last proxy to Weir that are not plain HTTP over TCP.
var wires = map[string]plan{
	"unix from nginx, path":              {proxies: line("nginx"), unix: true, client: "{path: [nginx]}"},
	"unix from haproxy, path":            {proxies: line("haproxy"), unix: true, client: "{path: [haproxy]}"},
	"unix from caddy, path":              {proxies: line("caddy"), unix: true, client: "{path: [caddy]}"},
	"unix from nginx, from_right":        {proxies: line("nginx"), unix: true, client: "{from_right: 1}"},
	"unix from haproxy, trusted_proxies": {proxies: line("haproxy"), unix: true, client: "{trusted_proxies: [unix]}"},
	"unix from nginx, narrow path":       {proxies: line("nginx"), unix: true, client: "{path: [{name: nginx, cidrs: [unix]}]}"},
	"unix between haproxy and nginx, path": {
		proxies: []proxy{{kind: "haproxy"}, {kind: "nginx", unix: true}},
		client:  "{path: [haproxy, nginx]}",
	},
	"unix between haproxy and nginx, trusted_proxies": {
		proxies: []proxy{{kind: "haproxy"}, {kind: "nginx", unix: true}},
		client:  "{trusted_proxies: [127.0.0.1/32, unix]}",
	},
	"X-Real-IP from nginx": {proxies: line("nginx"), client: "{header: X-Real-IP, peers: [127.0.0.1/32]}"},
	"X-Real-IP from nginx, unix": {
		proxies: line("nginx"), unix: true,
		client: "{header: X-Real-IP, peers: [unix]}",
	},
	"public clients of nginx, path":                {proxies: []proxy{hearing("nginx")}, public: true, client: "{path: [nginx]}"},
	"public clients of haproxy, trusted_proxies":   {proxies: []proxy{hearing("haproxy")}, public: true, client: "{trusted_proxies: [private]}"},
	"public clients of haproxy and nginx, private": {proxies: []proxy{hearing("haproxy"), {kind: "nginx"}}, public: true, client: "{trusted_proxies: [private]}"},
	"PROXY version 1 from haproxy":                 {proxies: speakingProxy("send-proxy"), more: requireProxy},
	"PROXY version 2 from haproxy":                 {proxies: speakingProxy("send-proxy-v2"), more: requireProxy},
}

const requireProxy = "proxy_protocol: {from: [127.0.0.1/32]}\n"

// speakingProxy is HAProxy that says in the PROXY protocol who connected.
func speakingProxy(word string) []proxy {
	return []proxy{{kind: "haproxy", edit: replacing("    server weir", "    default-server "+word+"\n    server weir")}}
}

// By whatever wire the last proxy reaches Weir, clients are who they are.
func TestWires(t *testing.T) {
	for name, p := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, p)
			t.Run("each his own", r.eachHisOwn)
			t.Run("forged", r.forgedChangesNothing)
		})
	}
}

// streamModule is nginx's, if it is installed where Debian does.
const streamModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

// nginx's stream module passes connections on and says in the PROXY protocol whose they are.
func TestNginxStream(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "nginx")
	if _, err := os.Stat(streamModule); err != nil {
		t.Skip("nginx's stream module is not installed; Debian's package is libnginx-mod-stream")
	}
	r := open(t, plan{proxies: []proxy{{kind: "nginx", main: nginxStream}}, more: requireProxy})
	t.Run("each his own", r.eachHisOwn)
	t.Run("forged", r.forgedChangesNothing)
}

// nginxStream is a main file of its own, since what we ship is for HTTP.
func nginxStream(dir, listen, next string) string {
	return "load_module " + streamModule + ";\ndaemon off;\nmaster_process off;\npid " + filepath.Join(dir, "pid") +
		";\nerror_log stderr warn;\nevents {}\nstream { server { listen " + listen + "; proxy_pass " + next + "; proxy_protocol on; } }\n"
}

// Who goes around the proxy is himself, and what he says of himself is not read.
func TestAroundTheProxy(t *testing.T) {
	t.Parallel()
	r := open(t, plan{proxies: line("nginx"), client: "{path: [{name: nginx, cidrs: [127.0.0.1/32]}]}"})
	c := r.client()
	if got, want := c.statuses(t, 3), []int{200, 200, 200}; !cmp.Equal(got, want) {
		t.Fatalf("through nginx: HTTP statuses %v, want %v", got, want)
	}
	r.entry = r.direct
	if a := c.get(t, "/", everythingForged(1)); a.status != http.StatusTooManyRequests {
		t.Errorf("around it: HTTP status %d, want 429 for the same client", a.status)
	}
	other := r.client()
	a := other.get(t, "/", everythingForged(1))
	a.wantOnly(t, other.addr)
}

// Who speaks the PROXY protocol without being listed is not understood; who is listed must speak it.
func TestProxyProtocolIsForThoseListed(t *testing.T) {
	t.Parallel()
	r := open(t, plan{proxies: speakingProxy("send-proxy"), more: requireProxy})
	r.entry = r.direct
	stranger := r.client()
	if a := stranger.raw(t, "PROXY TCP4 198.51.100.9 127.0.0.1 1 2\nGET / HTTP/1.1\nHost: a\n\n"); a.status != http.StatusBadRequest && a.status != 0 {
		t.Errorf("not listed: HTTP status %d, want 400", a.status)
	}
	if a := r.clientAt("127.0.0.1").raw(t, "GET / HTTP/1.1\nHost: a\n\n"); a.status != http.StatusBadRequest && a.status != 0 {
		t.Errorf("listed and silent: HTTP status %d, want 400 or none", a.status)
	}
	if a := stranger.get(t, "/", nil); a.status != http.StatusOK {
		t.Errorf("not listed, plain: HTTP status %d", a.status)
	} else {
		a.wantOnly(t, stranger.addr)
	}
}
