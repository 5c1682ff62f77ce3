package respond

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// refused is what a limit of 60 a minute says to the 61st.
func refused(wait time.Duration) *weir.Decision {
	return &weir.Decision{
		At:       time.Unix(1_700_000_000, 0),
		Rule:     &weir.Rule{Name: "search"},
		Action:   weir.Reject,
		Reason:   weir.OverLimit,
		HTTP:     429,
		Statuses: []weir.Status{{Limit: perMinute("search", 60), RetryAfter: wait, ResetAfter: time.Minute}},
	}
}

func get(header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// answer is everything that an asker sees.
type answer struct {
	Status int
	Header http.Header
	Body   any
}

func refusal(t *testing.T, o Options, req *http.Request, d *weir.Decision) answer {
	t.Helper()
	w := httptest.NewRecorder()
	New(o).Refusal(w, req, d)
	return read(t, w)
}

// read takes JSON apart and leaves anything else as text.
func read(t *testing.T, w *httptest.ResponseRecorder) answer {
	t.Helper()
	a := answer{Status: w.Code, Header: w.Header()}
	if w.Header().Get("Content-Type") != "application/problem+json" || w.Body.Len() == 0 {
		a.Body = w.Body.String()
		return a
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a.Body); err != nil {
		t.Fatalf("body: %v\n%s", err, w.Body)
	}
	return a
}

func TestRejection(t *testing.T) {
	got := refusal(t, Options{}, get(), refused(22*time.Second+1))
	want := answer{
		Status: 429,
		Header: http.Header{
			"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "Retry-After": {"23"},
			"Ratelimit-Policy": {`"search";q=60;w=60`}, "Ratelimit": {`"search";r=0;t=23`},
			"Access-Control-Expose-Headers": {"Retry-After, RateLimit, RateLimit-Policy"},
		},
		Body: map[string]any{
			"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title":             "Request cannot be satisfied as assigned quota has been exceeded",
			"status":            429.0,
			"detail":            "The limit search (60/1m) is used up. Retry after 23 s.",
			"violated-policies": []any{"search"},
			"rule":              "search",
			"limit":             60.0,
			"retry_after":       23.0,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// traefik#8573: a wait under one second was cut to 0, and clients came back at once.
func TestRetryAfter(t *testing.T) {
	tests := []struct {
		wait time.Duration
		want string
	}{
		{1, "1"},
		{999 * time.Millisecond, "1"},
		{time.Second, "1"},
		{time.Second + 1, "2"},
		{24 * time.Hour, "86400"},
		{1<<63 - 1, "9223372037"},
		{weir.Never, ""},
		{0, "1"}, // of a refusal that is no limit's
	}
	for _, test := range tests {
		a := refusal(t, Options{}, get(), refused(test.wait))
		if got := a.Header.Get("Retry-After"); got != test.want {
			t.Errorf("%v: got Retry-After %q, want %q", test.wait, got, test.want)
		}
	}
}

// A refusal without an HTTP status is never an answer that looks like success.
func TestRefusalWithoutAStatus(t *testing.T) {
	d := refused(time.Second)
	d.HTTP = 0
	if a := refusal(t, Options{}, get(), d); a.Status != 429 {
		t.Errorf("got %d, want 429", a.Status)
	}
}

func TestNoWaitingHelps(t *testing.T) {
	a := refusal(t, Options{}, get(), refused(weir.Never))
	body := a.Body.(map[string]any)
	if _, there := body["retry_after"]; there {
		t.Errorf("retry_after is there: %v", body)
	}
	if got, want := body["detail"], "The limit search (60/1m) is below what one such request costs."; got != want {
		t.Errorf("detail: got %q, want %q", got, want)
	}
}

// A costly request is refused while others still pass: the limit is not used up.
func TestTooLittleIsLeft(t *testing.T) {
	for left, want := range map[int64]string{
		0: "The limit search (60/1m) is used up. Retry after 2 s.",
		1: "The limit search (60/1m) has too little left for this request. Retry after 2 s.",
	} {
		d := refused(2 * time.Second)
		d.Statuses[0].Remaining = left
		if got := refusal(t, Options{}, get(), d).Body.(map[string]any)["detail"]; got != want {
			t.Errorf("%d left: got %q, want %q", left, got, want)
		}
	}
}

func TestViolatedPolicies(t *testing.T) {
	d := refused(2 * time.Second)
	d.Statuses = append(d.Statuses,
		weir.Status{Limit: perMinute("spare", 9), Allowed: true, Remaining: 9},
		weir.Status{Limit: &weir.Limit{Name: "trial", Mode: weir.Shadow}, RetryAfter: time.Hour},
		weir.Status{Limit: perMinute(`ho"st`, 7), RetryAfter: 3 * time.Second},
	)
	body := refusal(t, Options{}, get(), d).Body.(map[string]any)
	want := []any{[]any{`ho"st`, "search"}, 7.0, 3.0}
	if diff := cmp.Diff(want, []any{body["violated-policies"], body["limit"], body["retry_after"]}); diff != "" {
		t.Errorf("violated policies, limit, wait (-want +got):\n%s", diff)
	}
}

func TestRefusalsWithoutALimit(t *testing.T) {
	const capacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	tests := []struct {
		reason weir.Reason
		status int
		want   map[string]any
		retry  string
	}{
		{weir.StoreFailed, 503, map[string]any{"type": capacity, "status": 503.0, "retry_after": 1.0,
			"title":  "Request cannot be satisfied due to temporary server capacity constraints",
			"detail": "The request cannot be counted at the moment."}, "1"},
		{weir.ClientUnresolved, 403, map[string]any{"type": "about:blank", "status": 403.0, "title": "Forbidden",
			"detail": "It cannot be told whom the request is from."}, ""},
		{weir.AmbiguousPath, 400, map[string]any{"type": "about:blank", "status": 400.0, "title": "Bad Request",
			"detail": "The path can be read in more than one way."}, ""},
		{weir.BadRequest, 400, map[string]any{"type": "about:blank", "status": 400.0, "title": "Bad Request",
			"detail": "The request target is not valid."}, ""},
		{"reason of a later day", 403, map[string]any{"type": "about:blank", "status": 403.0, "title": "Forbidden",
			"detail": "The request was refused: reason of a later day."}, ""},
	}
	for _, test := range tests {
		d := &weir.Decision{Action: weir.Reject, Reason: test.reason, HTTP: test.status}
		want := answer{Status: test.status, Body: test.want, Header: http.Header{
			"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"},
			"Access-Control-Expose-Headers": {"Retry-After, RateLimit, RateLimit-Policy"},
		}}
		if test.retry != "" {
			want.Header.Set("Retry-After", test.retry)
		}
		if diff := cmp.Diff(want, refusal(t, Options{}, get(), d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}

func TestTypeBase(t *testing.T) {
	a := refusal(t, Options{ProblemTypeBase: `https://api.example/problems/"`}, get(), refused(time.Second))
	if got, want := a.Body.(map[string]any)["type"], `https://api.example/problems/"quota-exceeded`; got != want {
		t.Errorf("type: got %s, want %s", got, want)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	req := get()
	req.Method = "HEAD"
	a := refusal(t, Options{}, req, refused(time.Second))
	if a.Status != 429 || a.Body != "" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("got %+v, want 429 with Retry-After and no body", a)
	}
}

func TestExposedHeaders(t *testing.T) {
	const draft, legacy = "RateLimit, RateLimit-Policy", "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	tests := map[string]string{
		"":       "Retry-After, " + draft,
		"draft":  "Retry-After, " + draft,
		"legacy": "Retry-After, " + legacy,
		"both":   "Retry-After, " + draft + ", " + legacy,
		"off":    "Retry-After",
	}
	for headers, want := range tests {
		a := refusal(t, Options{Headers: headers}, get(), refused(time.Second))
		if got := a.Header.Get("Access-Control-Expose-Headers"); got != want {
			t.Errorf("%q: got %s, want %s", headers, got, want)
		}
	}
}

// nft.storage#2180: without these a browser reports a 429 as a network error; without the last one, to a
// script that asked with cookies.
func TestCORS(t *testing.T) {
	const site, other = "https://app.example", "https://other.example"
	tests := []struct {
		allow, origin       string
		want, vary, cookies string
	}{
		{"", site, "", "", ""},
		{"*", site, "*", "", ""},
		{"*", "", "*", "", ""},
		{site, site, site, "Origin", "true"},
		{site, other, "", "Origin", ""},
		{site, "", "", "Origin", ""},
		{other + ", " + site, site, site, "Origin", "true"},
	}
	for _, test := range tests {
		req := get()
		if test.origin != "" {
			req.Header.Set("Origin", test.origin)
		}
		a := refusal(t, Options{AllowOrigin: test.allow}, req, refused(time.Second))
		got := [3]string{a.Header.Get("Access-Control-Allow-Origin"), a.Header.Get("Vary"), a.Header.Get("Access-Control-Allow-Credentials")}
		if want := [3]string{test.want, test.vary, test.cookies}; got != want {
			t.Errorf("allow %q, origin %q: got %q, want %q", test.allow, test.origin, got, want)
		}
	}
}

// An answer may take the place of one that was prepared.
func TestVaryIsSaidOnce(t *testing.T) {
	r, w := New(Options{AllowOrigin: "https://app.example", HTML: true}), httptest.NewRecorder()
	w.Header().Set("Vary", "Accept-Encoding")
	r.Problem(w, get(), 502, "down")
	r.Problem(w, get(), 413, "too large")
	if diff := cmp.Diff([]string{"Accept-Encoding", "Origin", "Accept"}, w.Header()["Vary"]); diff != "" {
		t.Errorf("Vary (-want +got):\n%s", diff)
	}
}

func TestHTML(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	d := refused(time.Second)
	d.Statuses[0].Limit = perMinute("<script>", 60)
	a := refusal(t, Options{HTML: true}, get("Accept", browser), d)
	if got := a.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("content type: got %s", got)
	}
	page := a.Body.(string)
	if !strings.Contains(page, "&lt;script&gt;") || strings.Contains(page, "<script>") {
		t.Errorf("page is not escaped:\n%s", page)
	}
	if a.Header.Get("Vary") != "Accept" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("header: got %v, want Vary: Accept and Retry-After", a.Header)
	}
	if a := refusal(t, Options{}, get("Accept", browser), d); a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("HTML although it is off: %v", a.Header)
	}
}

func TestProblem(t *testing.T) {
	tests := []struct {
		status int
		title  string
		closes bool
	}{
		{400, "Bad Request", false}, {403, "Forbidden", false}, {408, "Request Timeout", true},
		{413, "Content Too Large", false}, {431, "Request Header Fields Too Large", false},
		{502, "Bad Gateway", false}, {504, "Gateway Timeout", false},
	}
	for _, test := range tests {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Length", "7") // of an answer that never came
		w.Header().Set("Content-Encoding", "gzip")
		new(Responder).Problem(w, get(), test.status, "what happened")
		want := answer{
			Status: test.status,
			Header: http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}},
			Body: map[string]any{"type": "about:blank", "title": test.title, "status": float64(test.status),
				"detail": "what happened"},
		}
		if test.closes {
			want.Header.Set("Connection", "close")
		}
		if diff := cmp.Diff(want, read(t, w)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", test.status, diff)
		}
	}
}

// A buffer that is used again must not show what it held before.
func TestBodiesAreApart(t *testing.T) {
	r := New(Options{})
	for range 3 {
		long, short := httptest.NewRecorder(), httptest.NewRecorder()
		r.Problem(long, get(), 502, strings.Repeat("x", 20_000))
		r.Problem(short, get(), 502, "y")
		if got := read(t, short).Body.(map[string]any)["detail"]; got != "y" {
			t.Fatalf("detail: got %v, want y", got)
		}
	}
}

// nobody is a writer that costs nothing.
type nobody struct{ h http.Header }

func (w *nobody) Header() http.Header         { return w.h }
func (w *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (w *nobody) WriteHeader(int)             {}

func TestRefusalAllocates(t *testing.T) {
	r, d, req, w := New(Options{}), refused(time.Second), get(), &nobody{http.Header{}}
	if got := testing.AllocsPerRun(100, func() { r.Refusal(w, req, d) }); got > 3 {
		t.Errorf("allocations: got %v, want at most 3: the detail, and the fields with their values", got)
	}
}

func BenchmarkRefusal(b *testing.B) {
	r, d, req, w := New(Options{}), refused(time.Second), get(), &nobody{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		r.Refusal(w, req, d)
	}
}

func BenchmarkHeaders(b *testing.B) {
	r, h := New(Options{}), http.Header{}
	d := decided(weir.Status{Limit: perMinute("search", 60), Allowed: true, Remaining: 59, ResetAfter: time.Minute})
	b.ReportAllocs()
	for b.Loop() {
		r.Headers(h, d)
	}
}

// medplum#10518: clients that read Retry-After and clients that read RateLimit come back at the same
// moment, whatever limits refused.
func TestRetryAfterAgreesWithRateLimit(t *testing.T) {
	waits := []time.Duration{1, time.Second - 1, time.Second, 90 * time.Second, time.Hour + 1}
	for _, a := range waits {
		for _, b := range waits {
			d := refused(a)
			d.Statuses = append(d.Statuses,
				weir.Status{Limit: perMinute("spare", 60), Allowed: true, ResetAfter: 9 * time.Hour},
				weir.Status{Limit: perMinute("other", 60), RetryAfter: b, ResetAfter: 9 * time.Hour})
			h := refusal(t, Options{}, get(), d).Header
			list, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
			if err != nil {
				t.Fatal(err)
			}
			if reset, _ := list[0].(httpsfv.Item).Params.Get("t"); fmt.Sprint(reset) != h.Get("Retry-After") {
				t.Errorf("waits %v and %v: t is %v and Retry-After %s", a, b, reset, h.Get("Retry-After"))
			}
		}
	}
}

// Over a wire, where net/http frames the answer: whole for GET, its header alone for HEAD.
func TestRefusalOnAConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		new(Responder).Refusal(w, r, refused(3*time.Second))
	}))
	defer server.Close()
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		r, err := http.NewRequest(method, server.URL, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "3" || answer.Close {
			t.Errorf("%s: %d, %v, %v", method, answer.StatusCode, answer.Header, err)
		}
		if whole := json.Valid(body); whole != (method != "HEAD") || !whole && len(body) > 0 {
			t.Errorf("%s: body %q", method, body)
		}
	}
}
