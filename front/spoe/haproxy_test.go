package spoe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
)

// A site is an HAProxy with the shipped configuration before a service, and the agents that it asks.
type site struct {
	url     string
	haproxy *proctest.Process
	dir     string
	reached atomic.Int64 // requests that the service got
	client  *http.Client
}

// start starts HAProxy before a service.
func (p plan) start(t testing.TB) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}}
	t.Cleanup(s.client.CloseIdleConnections)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reached.Add(1)
		w.Header().Set("RateLimit", "the service's own")
		w.Header().Set("X-Told", strings.Join(r.Header["X-Weir-Shadow"], "|"))
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(app.Close)
	listen := p.configure(t, s.dir, app.Listener.Addr().String())
	s.url = "http://" + listen
	s.haproxy = launch(t, s.dir)
	eventually(t, "HAProxy listens", func() bool {
		if err := s.haproxy.Gone(); err != nil {
			t.Fatal(err)
		}
		return s.haproxy.Listening(listen) == nil
	})
	return s
}

// An answer is what a client got, and when.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

func (s *site) get(t testing.TB, path string, header ...string) answer {
	t.Helper()
	a, err := s.ask("GET", path, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *site) ask(method, path string, header ...string) (answer, error) {
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	began := time.Now()
	res, err := s.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body), time.Since(began)}, err
}

const onePerHour = "client: {path: [haproxy]}\ndefault: {limits: [{name: site, rate: 1/1h, per: client, algorithm: token_bucket}]}"

func TestThroughHAProxy(t *testing.T) {
	h := open(t, onePerHour, Options{})
	s := plan{agents: []*house{h}}.start(t)
	passed := s.get(t, "/")
	if passed.status != 200 || passed.body != "hello" {
		t.Fatalf("%+v, want the service's answer", passed)
	}
	want := map[string]string{"Ratelimit": `"site";r=0;t=3600`, "Ratelimit-Policy": `"site";q=1;w=3600`, "Retry-After": "", "X-Err": ""}
	if diff := cmp.Diff(want, headers(passed, want)); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	for _, method := range []string{"GET", "POST", "HEAD"} {
		refused, err := s.ask(method, "/a%20b?x=%41")
		if err != nil {
			t.Fatal(err)
		}
		wait := refused.header.Get("Retry-After")
		want = map[string]string{
			"Ratelimit": `"site";r=0;t=` + wait, "Ratelimit-Policy": `"site";q=1;w=3600`, "X-Err": "",
			"Content-Type": "application/problem+json", "Cache-Control": "no-store",
		}
		if diff := cmp.Diff(want, headers(refused, want)); diff != "" || refused.status != 429 {
			t.Errorf("%s refused with %d (-want +got):\n%s", method, refused.status, diff)
		}
		if n, err := strconv.Atoi(wait); err != nil || n < 3590 || n > 3600 {
			t.Errorf("Retry-After: %q, want an hour", wait)
		}
		body := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"The limit site (1/1h) is used up. Retry after ` + wait + ` s.","violated-policies":["site"],` +
			`"limit":1,"rule":"default","retry_after":` + wait + `}`
		if method == "HEAD" {
			body = ""
		}
		if refused.body != body {
			t.Errorf("%s refused with\n%s\nwant\n%s", method, refused.body, body)
		}
	}
	if n := s.reached.Load(); n != 1 {
		t.Errorf("%d requests reached the service, want 1", n)
	}
}

// headers returns the headers of a that are among those of want, empty where there is none.
func headers(a answer, want map[string]string) map[string]string {
	got := map[string]string{}
	for name := range want {
		got[name] = strings.Join(a.header[name], "|")
	}
	return got
}

// An API key of 7 kB and as much beside it made the question larger than a frame, so that an agent was never
// asked and the request passed. Whatever is blown up, the agent is asked.
func TestPaddedRequestsAreAskedAbout(t *testing.T) {
	h := open(t, strings.Replace(onePerHour, "per: client", "per: ip", 1), Options{})
	s := plan{agents: []*house{h}}.start(t)
	s.get(t, "/")
	long := strings.Repeat("x", 7000)
	tests := []struct {
		name, method, path string
		header             []string
		want               int
	}{
		{"key and filler", "GET", "/", []string{"X-Api-Key", long, "X-Filler", long}, 429},
		{"chain in one line", "GET", "/", []string{"X-Forwarded-For", strings.Repeat("6.6.6.6, ", 1500)}, 429},
		{"chain of long entries", "GET", "/", []string{"X-Forwarded-For", long, "X-Forwarded-For", long}, 429},
		{"query", "GET", "/?" + long + long, nil, 429},
		{"longest path", "GET", "/" + long[:2046], nil, 429},
		{"path", "GET", "/" + long + long, nil, 400},
		{"method", strings.Repeat("M", 14000), "/", nil, 400},
		{"host", "GET", "/", []string{"Host", long}, 400},
	}
	for _, tt := range tests {
		a, err := s.padded(tt.method, tt.path, tt.header)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if a.status != tt.want || a.header.Get("X-Err") != "" {
			t.Errorf("%s: %d, error %q, want %d and none", tt.name, a.status, a.header.Get("X-Err"), tt.want)
		}
	}
	if n := s.reached.Load(); n != 1 {
		t.Errorf("%d requests reached the service, want 1", n)
	}
}

// padded asks, with the Host header from among the headers if it is there.
func (s *site) padded(method, path string, header []string) (answer, error) {
	if len(header) == 2 && header[0] == "Host" {
		r, err := http.NewRequest(method, s.url+path, nil)
		if err != nil {
			return answer{}, err
		}
		r.Host = header[1]
		res, err := s.client.Do(r)
		if err != nil {
			return answer{}, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return answer{status: res.StatusCode, header: res.Header}, err
	}
	return s.ask(method, path, header...)
}

// wholeHeader asks for the whole header, which a client can make larger than a frame.
func wholeHeader(questions string) string {
	return strings.Replace(questions, "    args ", "    args hdr.all=req.hdrs hdr.again=req.hdrs ", 1)
}

// A question that cannot be asked is refused in both configurations, and at once.
func TestQuestionLargerThanAFrame(t *testing.T) {
	for _, edit := range []func(string) string{nil, failClosed} {
		h := open(t, plenty, Options{})
		s := plan{agents: []*house{h}, edit: edit, ask: wholeHeader, hasty: true}.start(t)
		long := strings.Repeat("x", 7000)
		a := s.get(t, "/", "X-Filler", long, "X-Filler", long)
		if a.status != 431 || a.header.Get("X-Err") != "3" {
			t.Errorf("%d, error %q, want 431 and 3", a.status, a.header.Get("X-Err"))
		}
		t.Logf("after %s", a.took)
	}
}

// A client that forges a chain, in however many lines and entries, is counted as whoever is connected.
func TestForgedChainsMintNoBuckets(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 5/1h, per: client}]}", Options{})
	s := plan{agents: []*house{h}}.start(t)
	passed := 0
	for i := range 40 {
		forged := fmt.Sprintf("198.51.100.%d", i)
		a := s.get(t, "/", "X-Forwarded-For", forged, "X-Forwarded-For", forged+", 203.0.113."+strconv.Itoa(i), "Forwarded", "for="+forged,
			"X-Real-Ip", forged, "X_Forwarded_For", forged)
		if a.status == 200 {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 40 passed, want 5", passed)
	}
}

// Of a chain that proxies before HAProxy wrote, the entries that they wrote are believed, whatever stands
// left of them; of several lines, too.
func TestProxiesBeforeHAProxy(t *testing.T) {
	h := open(t, `
client: {path: [{name: cdn, cidrs: [198.51.100.0/24], appends: 1}, {name: nginx, cidrs: [127.0.0.0/8]}, haproxy]}
default: {limits: [{rate: 100/1h, per: client}]}
`, Options{})
	s := plan{agents: []*house{h}}.start(t)
	tests := []struct {
		name  string
		lines []string
		want  string
	}{
		{"one line", []string{"6.6.6.6, 203.0.113.7, 198.51.100.1"}, "203.0.113.7/32 forwarded"},
		{"a line for each", []string{"6.6.6.6", "203.0.113.7", "198.51.100.1"}, "203.0.113.7/32 forwarded"},
		{"a long forgery", []string{strings.Repeat("6.6.6.6, ", 1000) + "203.0.113.7, 198.51.100.1"}, "203.0.113.7/32 forwarded"},
		{"a forged entry without end", []string{strings.Repeat("6", 9000) + ", 203.0.113.7, 198.51.100.1"}, "203.0.113.7/32 forwarded"},
		{"the CDN wrote nothing", []string{"6.6.6.6,, 198.51.100.1"}, "unresolved:198.51.100.1 unresolved"},
		{"the CDN was passed by", []string{"6.6.6.6, 203.0.113.7"}, "203.0.113.7/32 forwarded"},
		{"nginx wrote nothing", nil, "unresolved:127.0.0.1 unresolved"},
	}
	for i, tt := range tests {
		var header []string
		for _, line := range tt.lines {
			header = append(header, "X-Forwarded-For", line)
		}
		s.get(t, "/", header...)
		eventually(t, "record", func() bool { return len(h.journal.Recent(i+2)) == i+1 })
		d := h.journal.Recent(1)[0]
		if got := fmt.Sprint(d.Client, " ", d.Source); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The service hears of shadow limits from Weir, and not from the client.
func TestServiceIsTold(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\nrules: [{name: quiet, path: /quiet, limits: []}]\ndefault: {limits: [{name: trial, rate: 0/1h, mode: shadow}]}", Options{})
	s := plan{agents: []*house{h}}.start(t)
	for path, want := range map[string]string{"/": "trial", "/quiet": ""} {
		if got := s.get(t, path, "X-Weir-Shadow", "forged", "x-weir-shadow", "again").header.Get("X-Told"); got != want {
			t.Errorf("%s: told %q, want %q", path, got, want)
		}
	}
}

// Each request of a kept connection is counted.
func TestKeptConnections(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 3/1h}]}", Options{})
	s := plan{agents: []*house{h}}.start(t)
	s.client.Transport.(*http.Transport).MaxConnsPerHost = 1
	var got []int
	for range 6 {
		got = append(got, s.get(t, "/").status)
	}
	if want := []int{200, 200, 200, 429, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
