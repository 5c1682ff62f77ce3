package browser_test

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir/admin/dashboard"
)

//go:embed testdata/api
var recorded embed.FS

// A standIn answers as the admin API does, with recorded bodies, so that a test chooses what the page is
// told: what a real Weir would take hours, a failing Redis or a firewall to say.
type standIn struct {
	*httptest.Server

	mu      sync.Mutex
	admin   string            // its token; empty: none is asked for
	read    string            // the token that may change nothing
	bodies  map[string]string // by path below /api/v1/, in place of what is recorded
	down    bool              // every connection is cut
	changes []string          // what was asked to be changed, in order
	asked   map[string]int    // by path
	began   time.Time
	more    int // requests in each second, beyond those of the recorded morning
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{bodies: map[string]string{}, asked: map[string]int{}, began: time.Now()}
	mux := http.NewServeMux()
	mux.Handle("/", dashboard.Handler())
	mux.HandleFunc("/api/v1/", s.serve)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// set changes what the stand-in does.
func (s *standIn) set(change func(*standIn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// asks is how often a path was asked for.
func (s *standIn) asks(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/")
	s.asked[path]++
	if s.down {
		panic(http.ErrAbortHandler)
	}
	writes, known := s.may(r)
	switch {
	case !known:
		problem(w, http.StatusUnauthorized, "unauthorized", "a bearer token is required")
	case r.Method == http.MethodDelete || r.Method == http.MethodPost && path != "explain":
		s.change(w, r, path, writes)
	case path == "session" && s.bodies[path] == "":
		fmt.Fprintf(w, `{"token":"admin","writes":%v,"version":"0.5.0","bans":false,"blocked":true,"read_only":%q}`, writes, map[bool]string{false: "this token only reads"}[writes])
	case path == "series":
		s.series(w, r)
	default:
		s.body(w, path)
	}
}

// may reports what the request's token allows.
func (s *standIn) may(r *http.Request) (writes, known bool) {
	if s.admin == "" {
		return true, true
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token == s.admin, token == s.admin || token == s.read && s.read != ""
}

func (s *standIn) change(w http.ResponseWriter, r *http.Request, path string, writes bool) {
	if !writes {
		problem(w, http.StatusForbidden, "read_only", "this token only reads")
		return
	}
	var body struct {
		Subject, For, Reason string
		Force                bool
	}
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&body) != nil {
		problem(w, http.StatusBadRequest, "bad_request", "body: want JSON")
		return
	}
	if path == "bans" && strings.HasPrefix(body.Subject, "127.") && !body.Force {
		problem(w, http.StatusConflict, "protected", body.Subject+" is this machine")
		return
	}
	s.changes = append(s.changes, r.Method+" "+path+"?"+r.URL.RawQuery)
	if path == "bans" {
		s.bodies["bans"] = fmt.Sprintf(`{"total":1,"bans":[{"subject":%q,"since":"2026-11-30T00:00:00Z","until":null,"reason":%q,"author":"admin"}]}`, body.Subject, body.Reason)
	}
	answer, ok := s.bodies[r.Method+" "+path]
	if refused, isRefused := strings.CutPrefix(answer, "422 "); isRefused {
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = refused
	}
	if !ok {
		answer = fmt.Sprintf(`{"key":"","counters":3,"subject":%q,"still_by":""}`, body.Subject)
	}
	fmt.Fprint(w, answer)
}

func (s *standIn) body(w http.ResponseWriter, path string) {
	body, ok := s.bodies[path]
	if !ok {
		body = s.recorded(strings.SplitN(path, "/", 2)[0])
	}
	if body == "" {
		problem(w, http.StatusNotImplemented, "not_in_this_version", path+" is not in this version")
		return
	}
	if code, text, isProblem := strings.Cut(body, "!"); isProblem && len(code) == 3 {
		status, _ := strconv.Atoi(code) // of three digits, or the test sees 0
		problem(w, status, "failed", text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

// recorded is the body that is recorded under a name, as if it was made now, or nothing.
func (*standIn) recorded(name string) string {
	data, err := recorded.ReadFile("testdata/api/" + name + ".json")
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(data), "NOW", time.Now().UTC().Format(time.RFC3339Nano))
}

// series makes a calm morning with a flood that began a minute and a half ago.
func (s *standIn) series(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("seconds"))
	if err != nil {
		problem(w, http.StatusBadRequest, "bad_request", "seconds: want a number")
		return
	}
	type point struct {
		Time     time.Time `json:"time"`
		Requests int       `json:"requests"`
		Refused  int       `json:"refused"`
		Shadow   int       `json:"shadow"`
		P50      *float64  `json:"p50"`
		P95      *float64  `json:"p95"`
		P99      *float64  `json:"p99"`
	}
	points, now := make([]point, n), time.Now().Truncate(time.Second)
	for i := range points {
		at := now.Add(time.Duration(i-n) * time.Second)
		x := float64(at.Unix())
		p := point{Time: at, Requests: s.more + int(84+22*math.Sin(x/37)+9*math.Sin(x/5.3)+6*math.Sin(x*1.7)), Shadow: int(at.Unix() % 7 / 3)}
		if flood := at.Sub(s.began.Add(-95 * time.Second)).Seconds(); flood > 0 {
			more := int(190 * (1 - math.Exp(-flood/14)) * (1 + .08*math.Sin(x*2.3)))
			p.Requests, p.Refused = p.Requests+more, int(float64(more)*.93)
		}
		p50, p95 := .0038+.0007*math.Sin(x/9), .019+.006*math.Sin(x/7)+.002*math.Sin(x*1.9)
		p99 := 2 * p95
		p.P50, p.P95, p.P99 = &p50, &p95, &p99
		points[i] = p
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"from": points[0].Time, "step": 1, "points": points}) // the page sees what is missing
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "code": code, "detail": detail}) // likewise
}
