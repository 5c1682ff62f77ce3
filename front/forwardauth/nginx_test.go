package forwardauth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/timed"
)

// Public case PRX-08: through nginx, by the shipped file, a client gets a true 429 with everything that
// belongs to it.
func TestNginxTrue429(t *testing.T) {
	t.Parallel()
	r := open(t, "nginx", plan{yaml: "cors: {allow_origin: \"https://app.example\"}\n" + few})
	c := r.client()
	for left := 2; left >= 0; left-- {
		a := c.get("/a?b=c")
		if a.status != 200 || a.header.Get("RateLimit") != fmt.Sprintf(`"few";r=%d;t=60`, left) || a.header.Get("RateLimit-Policy") != `"few";q=3;w=60` {
			t.Errorf("HTTP status %d, %v", a.status, a.header)
		}
		if a.seen.Target != "/a?b=c" {
			t.Errorf("the service saw %s", a.seen.Target)
		}
	}
	a := c.get("/a", "Origin", "https://app.example")
	for name, want := range map[string]string{
		"Retry-After": "60", "RateLimit": `"few";r=0;t=60`, "RateLimit-Policy": `"few";q=3;w=60`, "Content-Type": "application/problem+json",
		"Cache-Control": "no-store", "Access-Control-Allow-Origin": "https://app.example",
		"Access-Control-Expose-Headers": "Retry-After, RateLimit, RateLimit-Policy",
	} {
		if got := a.header[http.CanonicalHeaderKey(name)]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if a.status != http.StatusTooManyRequests {
		t.Errorf("HTTP status %d, want 429", a.status)
	}
	problemOf(t, a.body, 429)
	if n := r.service.count.Load(); n != 3 {
		t.Errorf("the service had %d requests, want 3", n)
	}
	if got := r.client().get("/a").status; got != http.StatusOK {
		t.Errorf("another client: HTTP status %d", got)
	}
	if log := r.proxy.Log(); strings.Contains(log, "[error]") {
		t.Errorf("nginx complains: %s", log)
	}
}

// What else Weir may want reaches the client as it is meant, and a 403 of the service's own is its own.
func TestNginxOtherStatuses(t *testing.T) {
	t.Parallel()
	r := open(t, "nginx", plan{yaml: "matching: {ambiguous_paths: reject}\n" + few})
	c := r.client()
	if a := c.get("/open/%2e%2e/x"); a.status != http.StatusBadRequest {
		t.Errorf("an ambiguous path: HTTP status %d, want 400", a.status)
	} else {
		problemOf(t, a.body, 400)
	}
	if a := c.get("/forbidden"); a.status != http.StatusForbidden || a.body != "the service's own word" {
		t.Errorf("the service's 403: HTTP status %d, %q", a.status, a.body)
	}
}

// nginx hands on that a key is wanted, and how it is sent.
func TestNginxWantsAKey(t *testing.T) {
	t.Parallel()
	r := open(t, "nginx", plan{yaml: "keys: {required: true}\n" + few})
	a := r.client().get("/a")
	if got := a.header.Get("WWW-Authenticate"); a.status != http.StatusUnauthorized || got != `ApiKey realm="weir", header="X-API-Key"` {
		t.Errorf("HTTP status %d, WWW-Authenticate %q", a.status, got)
	}
	problemOf(t, a.body, 401)
}

// A body goes to the service alone, and nginx announces none to Weir.
func TestNginxBodies(t *testing.T) {
	t.Parallel()
	r := open(t, "nginx", plan{})
	c := r.client()
	for _, method := range []string{"POST", "PUT"} {
		body := strings.Repeat(method, 20_000)
		if a := c.do(method, "/a", body); a.status != 200 || a.seen.Body != body || a.seen.Method != method {
			t.Errorf("%s: HTTP status %d, method %s, %d bytes arrived", method, a.status, a.seen.Method, len(a.seen.Body))
		}
	}
	if got := r.client().do("POST", "/shut", "x").status; got != 200 {
		t.Errorf("the rule for POST was not found: HTTP status %d", got)
	}
	if got := r.client().do("HEAD", "/shut", "").status; got != 429 {
		t.Errorf("HEAD: HTTP status %d", got)
	}
}

// redirecting gives nginx files of its own and pages for errors.
func redirecting(dir string) func(string) string {
	return func(config string) string {
		return strings.Replace(config, "    location / {\n", `    root `+dir+`;
    location = / { index index.html; }
    location /files/ { index index.html; }
    location /tried/ { try_files $uri /index.html; }
    location /named/ { try_files $uri @named; }
    location @named { proxy_pass http://127.0.0.1:3000; }
    location /deep/ { try_files $uri /tried/nothing; }
    location = /missing { proxy_pass http://127.0.0.1:3000; proxy_intercept_errors on; error_page 404 /index.html; error_page 403 = @weir_refused; }
    location = /shown { error_page 404 /missing; error_page 403 = @weir_refused; }
    location / {
`, 1)
	}
}

// A request that nginx asks about again, for an index, a fallback or an error page, is one request: it
// consumes exactly 1, however often.
func TestNginxAsksTwiceChargesOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"index.html", "files/index.html"} {
		os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("page"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, "nginx", plan{edit: redirecting(dir)})
	for target, status := range map[string]int{
		"/": 200, "/files/": 200, "/tried/x": 200, "/named/x": 200, "/deep/x": 200, "/missing": 404, "/shown": 404, "/plain": 200,
	} {
		before, _ := r.asked()
		c := r.client()
		got := c.statuses(5, target)
		if want := []int{status, status, status, 429, 429}; !slices.Equal(got, want) {
			t.Errorf("%s: HTTP statuses %v, want %v", target, got, want)
		}
		if after, _ := r.asked(); after-before != 5 {
			t.Errorf("%s: %d requests are counted, want 5", target, after-before)
		}
	}
	if _, again := r.asked(); again == "0" {
		t.Error("nginx asked about nothing twice: the test shows nothing")
	}
	// An error page is asked for by GET, whatever the request was.
	c := r.client()
	var got []int
	for range 4 {
		got = append(got, c.do("POST", "/missing", "x").status)
	}
	if want := []int{404, 404, 404, 429}; !slices.Equal(got, want) {
		t.Errorf("POST: HTTP statuses %v, want %v", got, want)
	}
}

// Checks go through one connection.
func TestNginxKeepsItsConnection(t *testing.T) {
	t.Parallel()
	r := open(t, "nginx", plan{yaml: "default: {limits: [{rate: 1000/1m}]}\n"})
	c := r.client()
	for _, method := range []string{"GET", "POST", "HEAD", "GET"} {
		for range 25 {
			c.do(method, "/a", "")
		}
	}
	c.do("POST", "/a", "with a body")
	if n := r.connections.Load(); n != 1 {
		t.Errorf("%d connections for 101 asks, want 1", n)
	}
}

// opening makes the shipped file let everything pass while Weir is away.
func opening(config string) string {
	return strings.Replace(config, "# error_page 502 504 =", "error_page 502 504 =", 1)
}

// What happens while nobody listens where Weir was, and while something listens that does not answer: as
// documented, and soon. Refusals stay refusals as long as Weir is there.
func TestNginxWithoutWeir(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit   func(string) string
		status int
	}{"closed": {nil, 500}, "open": {opening, 200}} {
		t.Run(name, func(t *testing.T) {
			for where, addr := range map[string]string{"nobody": nobody(t), "frozen": frozen(t)} {
				r := open(t, "nginx", plan{edit: c.edit, weir: addr, hasty: true})
				began := time.Now()
				if got := r.client().get("/a").status; got != c.status {
					t.Errorf("%s: HTTP status %d, want %d", where, got, c.status)
				}
				if took := time.Since(began); took > timed.Bound(300*time.Millisecond+soon) {
					t.Errorf("%s: it took %v", where, took)
				}
			}
			r := open(t, "nginx", plan{edit: c.edit})
			if got := r.client().statuses(1, "/shut"); got[0] != 429 {
				t.Errorf("with Weir: HTTP statuses %v, want 429", got)
			}
			ctx, cancel := context.WithTimeout(context.Background(), proctest.Patience)
			defer cancel()
			if err := r.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			if got := r.client().get("/shut").status; got != c.status {
				t.Errorf("after Weir has gone: HTTP status %d, want %d", got, c.status)
			}
		})
	}
}

// nobody returns an address at which nobody listens.
func nobody(t *testing.T) string {
	addr, err := proctest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// frozen returns an address at which connections are taken and nothing is answered.
func frozen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// forgeries are what a client may send to seem another, or to ask for something else.
var forgeries = [][]string{
	{"X-Original-URI", "/open"}, {"X-Original-Uri", "/open"}, {"X-Original-Method", "POST"}, {"X-Original-Host", "other.example"},
	{"X-Forwarded-Uri", "/open"}, {"X-Forwarded-Method", "POST"}, {"X-Forwarded-Host", "other.example"}, {"X-Forwarded-Proto", "gopher"},
	{"X_Original_URI", "/open"}, {"X_Forwarded_Uri", "/open"}, {"X.Forwarded.Uri", "/open"}, {"X-Rewrite-Url", "/open"}, {"X-Original-Url", "/open"},
	{"X-Forwarded-For", "198.51.100.1"}, {"X-Real-Ip", "198.51.100.1"}, {"Forwarded", "for=198.51.100.1;host=other.example"},
	{"X-Forwarded-For", "127.0.0.1, 127.0.0.1"}, {"True-Client-Ip", "198.51.100.1"}, {"X-Http-Method-Override", "POST"},
	{"X-Weir-Request-Id", strings.Repeat("0", 32)}, {"X-Weir-Status", "200"}, {"Connection", "X-Forwarded-For, X-Original-URI, X-Forwarded-Uri"},
	{"Content-Type", "application/grpc"}, {"Accept", "text/html"}, {"X-Forwarded-Uri", "/open\t"}, {"Upgrade", "websocket"},
}

// judged is what of a record a client must not choose.
type judged struct{ Client, Method, Host, Path, Rule, Action string }

// forge sends every forgery, and queries that look like options, and compares what was decided about them
// with what is decided about an honest request.
func (r *road) forge() {
	r.t.Helper()
	c := r.client()
	honest := r.decided(c, "/shut", nil)
	if honest.Rule != "shut" || honest.Action != "reject" {
		r.t.Fatalf("an honest request: %+v", honest)
	}
	for _, fields := range forgeries {
		if diff := cmp.Diff(honest, r.decided(c, "/shut", fields)); diff != "" {
			r.t.Errorf("%v changes the request (-honest +forged):\n%s", fields, diff)
		}
	}
	for _, query := range []string{"?map=200", "?/open", "?X-Original-URI=/open", "?path=/open&method=POST", "??", "?a#b"} {
		if diff := cmp.Diff(honest, r.decided(c, "/shut"+query, nil)); diff != "" {
			r.t.Errorf("%s changes the request (-honest +forged):\n%s", query, diff)
		}
	}
}

// decided asks, which must be refused, and returns what was recorded.
func (r *road) decided(c *client, target string, fields []string) judged {
	r.t.Helper()
	before := r.journal.Totals().Requests
	a := c.get(target, fields...)
	if n := r.journal.Totals().Requests - before; a.status != http.StatusTooManyRequests || n != 1 {
		r.t.Errorf("%s, %v: HTTP status %d, %d asks", target, fields, a.status, n)
		return judged{}
	}
	e := r.journal.Recent(1)[0]
	return judged{e.Client, e.Method, e.Host, e.Path, e.Rule, e.Action}
}

func TestNginxForgeries(t *testing.T) {
	t.Parallel()
	r := open(t, "nginx", plan{})
	r.forge()
	if got := r.client().get("/x", "Host", "shut.example", "X-Original-Host", "site.example").status; got != 429 {
		t.Errorf("a shut host: HTTP status %d", got)
	}
}

func TestNginxBehindAnother(t *testing.T) {
	t.Parallel()
	open(t, "nginx", plan{client: "{path: [{name: edge, cidrs: [127.0.0.0/8]}, nginx]}"}).behindAnother()
}

// behindAnother asks as a proxy that lets everything through and appends to the chain.
func (r *road) behindAnother() {
	r.t.Helper()
	c := r.client()
	honest := r.decided(c, "/shut", []string{"X-Forwarded-For", "6.6.6.6, 198.51.100.9", "X-Forwarded-Proto", "https"})
	if honest.Client != "198.51.100.9/32" || honest.Rule != "shut" {
		r.t.Errorf("an honest request: %+v", honest)
	}
	for _, forged := range [][]string{{"X-Forwarded-Uri", "/open"}, {"X-Forwarded-Method", "POST"}, {"X-Forwarded-Host", "other.example"}, {"X-Original-URI", "/open"}} {
		got := r.decided(c, "/shut", append([]string{"X-Forwarded-For", "6.6.6.6, 198.51.100.9", "X-Forwarded-Proto", "https"}, forged...))
		if diff := cmp.Diff(honest, got); diff != "" {
			r.t.Errorf("%v changes the request (-honest +forged):\n%s", forged, diff)
		}
	}
}

// A name that a client gives to its requests makes none of them free.
func TestNginxNamesRequestsItself(t *testing.T) {
	t.Parallel()
	c := open(t, "nginx", plan{}).client()
	got := c.statuses(5, "/a", "X-Weir-Request-Id", strings.Repeat("a", 32))
	if want := []int{200, 200, 200, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("HTTP statuses %v, want %v", got, want)
	}
}

const telling = `
rules:
  - {name: tagged, path: /tagged, action: tag, limits: [{name: few, rate: 1/1m}, {name: trial, rate: 1/1m, mode: shadow}]}
`

// told has the service hear from Weir alone what it is told of tags and shadows.
func (r *road) told() {
	r.t.Helper()
	c := r.client()
	pretended := []string{"X-Weir-Tag", "mine", "X-Weir-Shadow", "mine", "X_Weir_Tag", "mine", "X.Weir.Tag", "mine", "X-Weir_Tag", "mine"}
	for i, want := range []map[string]string{{}, {"X-Weir-Tag": "few", "X-Weir-Shadow": "trial"}} {
		got := map[string]string{}
		a := c.get("/tagged", pretended...)
		for name, lines := range a.seen.Header {
			if strings.Contains(strings.ToLower(name), "weir") {
				got[name] = strings.Join(lines, "|")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || a.status != http.StatusOK {
			r.t.Errorf("request %d: HTTP status %d, the service heard (-want +got):\n%s", i, a.status, diff)
		}
	}
}

// Public case PRX-05: what the service is told under Weir's names is Weir's, in every spelling.
func TestNginxTellsTheService(t *testing.T) {
	t.Parallel()
	open(t, "nginx", plan{yaml: telling}).told()
}

// A request that nginx cannot complete asks and is counted; whoever reads on.
func TestNginxClientAborts(t *testing.T) {
	t.Parallel()
	store := newWaiting(t)
	h := buildOver(t, once, store)
	r := open(t, "nginx", plan{weir: h.serve(), hasty: true})
	ctx, cancel := context.WithCancel(context.Background())
	req := httptest.NewRequest(http.MethodGet, "http://"+r.entry+"/a", nil).WithContext(ctx)
	req.RequestURI = ""
	done := make(chan error, 1)
	go func() { _, err := r.client().http.Do(req); done <- err }()
	<-store.asked
	cancel()
	<-done
	if err := proctest.Await(proctest.Patience, func() error {
		if !store.gone.Load() {
			return fmt.Errorf("the ask goes on")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
