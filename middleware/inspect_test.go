package middleware

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/journal"
)

const attack = `{"name": "1' UNION SELECT password FROM users-- -"}`

// walled is a configuration whose default rule is inspected, and which has a rule of each other kind.
const walled = `
limits: []
default: {limits: []}
rules:
  - {name: detect, path: /detect, waf: {mode: detect}}
  - {name: "off", path: /off, waf: {mode: off}}
  - {name: stream, path: /stream, body: skip}
  - {name: large, path: /large, max_body: 2MiB}
  - {name: once, path: /once, limits: [{rate: 0/1h}]}
waf: {max_body: 64KiB, max_wait: 1m}
`

// bodies is a handler that notes what reached it.
type bodies struct {
	mu     sync.Mutex
	bodies []string
}

func (s *bodies) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	all, err := io.ReadAll(r.Body)
	if err != nil {
		all = append(all, " and "+err.Error()...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(all))
}

// taken returns what reached the handler since the last call.
func (s *bodies) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.bodies
	s.bodies = nil
	return taken
}

func TestInspection(t *testing.T) {
	long := strings.Repeat("the quick brown fox; ", 5000) // above 64 KiB
	tests := []struct {
		name, path, media, body string
		status                  int
		verdict, refused        string // of the blocked list, or empty
	}{
		{"an ordinary body", "/", "application/json", `{"name": "O'Brien"}`, 200, "", ""},
		{"an attack in the body", "/", "application/json", attack, 403, "block", ""},
		{"an attack in the query", "/?q=1'+UNION+SELECT+password+FROM+users--+-", "text/plain", "x", 403, "block", ""},
		{"only reported", "/detect", "application/json", attack, 200, "detect", ""},
		{"not inspected", "/off", "application/json", attack, 200, "", ""},
		{"streamed past", "/stream", "application/json", attack, 200, "", ""},
		{"streamed past, with an attack in the query", "/stream?q=1'+UNION+SELECT+password+FROM+users--+-", "application/json", "{}", 403, "block", ""},
		{"a reading under a rule that is off", "/off/../x", "application/json", attack, 403, "block", ""},
		{"broken JSON", "/", "application/json", `{"name": `, 400, "block", "json"},
		{"too long", "/", "text/plain", long, 413, "", ""},
		{"too long, only reported", "/detect", "text/plain", long, 200, "detect", "max_body"},
		{"long enough for the rule", "/large", "text/plain", long, 200, "", ""},
		{"long and streamed", "/stream", "text/plain", long, 200, "", ""},
		{"over its limit", "/once", "application/json", attack, 429, "", ""},
	}
	for _, test := range tests {
		for _, p := range protocols {
			for _, declared := range []bool{true, false} {
				t.Run(fmt.Sprint(test.name, "/", p, "/declared ", declared), func(t *testing.T) {
					h, handler := build(t, walled), new(bodies)
					client, server := serve(t, p, h.Wrap(handler))
					r := post(server.URL+test.path, test.media, test.body)
					if declared {
						r.ContentLength = int64(len(test.body))
					}
					answer, body := do(t, client, r)
					want := []string(nil)
					if test.status == 200 {
						want = []string{test.body}
					}
					if got := handler.taken(); answer.StatusCode != test.status || !cmp.Equal(got, want) {
						t.Errorf("got %d, and the handler got %.80q; want %d\n%s", answer.StatusCode, got, test.status, body)
					}
					checkBlocked(t, h.journal, test.verdict, test.refused, body)
					if got := h.records(t, 1)[0]; got.Status != test.status || (got.Action == "reject") != (test.status != 200) {
						t.Errorf("recorded %+v", got)
					}
				})
			}
		}
	}
}

// checkBlocked compares the blocked list, and the incident that a blocked asker is told.
func checkBlocked(t *testing.T, j *journal.Journal, verdict, refused, answer string) {
	t.Helper()
	list := j.Blocked(10)
	if verdict == "" {
		if len(list) > 0 {
			t.Errorf("blocked: %+v", list)
		}
		return
	}
	proctest.Eventually(t, "the blocked list", func() bool { list = j.Blocked(10); return len(list) > 0 })
	b := list[0]
	if len(list) != 1 || b.Verdict != verdict || !strings.Contains(b.Refused, refused) || b.Incident == "" || refused == "" && len(b.Matches) == 0 {
		t.Errorf("blocked: %+v", list)
	}
	var problem struct{ Incident string }
	_ = json.Unmarshal([]byte(answer), &problem)
	if verdict == "block" && problem.Incident != b.Incident {
		t.Errorf("the asker is told incident %q of %q: %s", problem.Incident, b.Incident, answer)
	}
}

// ModSecurity#406, WAF-01: every byte reaches the service, whatever is inspected, from many at once.
func TestEveryByteArrives(t *testing.T) {
	h := build(t, walled)
	for _, p := range protocols {
		client, server := serve(t, p, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sum := sha256.New()
			_, _ = io.Copy(sum, r.Body)
			fmt.Fprintf(w, "%x", sum.Sum(nil))
		})))
		var askers sync.WaitGroup
		for i := range 16 {
			askers.Go(func() {
				body := bytes.Repeat([]byte{byte(i), 0xff, 'a'}, 1+i*i*i*20)
				for _, path := range []string{"/large", "/stream", "/detect"} {
					answer, got := do(t, client, post(server.URL+path, "application/octet-stream", string(body)))
					if want := fmt.Sprintf("%x", sha256.Sum256(body)); answer.StatusCode != 200 || got != want {
						t.Errorf("%s %s, %d bytes: %d %s", p, path, len(body), answer.StatusCode, got)
					}
				}
			})
		}
		askers.Wait()
	}
}

// A gRPC stream is not held back: what is said is answered before the stream ends. What only says that it is
// one goes no way round the firewall.
func TestGRPCStreams(t *testing.T) {
	h := build(t, walled)
	client, server := serve(t, h2c, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message [7]byte
		for {
			if _, err := io.ReadFull(r.Body, message[:]); err != nil {
				return
			}
			w.Write(message[:])
			w.(http.Flusher).Flush()
		}
	})))
	in, out := io.Pipe()
	r, _ := http.NewRequest("POST", server.URL+"/shop.Cart/Watch", in)
	r.Header.Set("Content-Type", "application/grpc+proto")
	go out.Write([]byte("\x00\x00\x00\x00\x02ab"))
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var message [7]byte
	for _, text := range []string{"ab", "cd"} {
		if _, err := io.ReadFull(answer.Body, message[:]); err != nil || string(message[5:]) != text {
			t.Fatalf("got %q, %v", message, err)
		}
		go out.Write([]byte("\x00\x00\x00\x00\x02cd"))
	}
	out.Close()

	posing := post(server.URL+"/", "application/grpc", attack)
	answer, _ = do(t, client, posing)
	if got := answer.Header.Get("Grpc-Status"); got != "3" {
		t.Errorf("a body that is not gRPC: grpc-status %q, want 3", got)
	}
}

// What follows a body is inspected like a header.
func TestTrailersAreInspected(t *testing.T) {
	h, handler := build(t, walled), new(bodies)
	client, server := serve(t, http1, h.Wrap(handler))
	r := post(server.URL, "text/plain", "hello")
	r.Trailer = http.Header{"Referer": {"1' UNION SELECT password FROM users-- -"}}
	answer, _ := do(t, client, r)
	if got := handler.taken(); answer.StatusCode != 403 || got != nil {
		t.Errorf("got %d, and %q passed", answer.StatusCode, got)
	}
}

// A body that is read once the answer has ended is gone: its memory is another request's.
func TestAHeldBodyEndsWithTheAnswer(t *testing.T) {
	h := build(t, walled)
	var kept io.Reader
	client, server := serve(t, http1, h.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kept = r.Body })))
	do(t, client, post(server.URL, "text/plain", "one"))
	h.records(t, 1)
	if all, err := io.ReadAll(kept); len(all) != 0 || err != http.ErrBodyReadAfterClose {
		t.Errorf("read %q, %v", all, err)
	}
}
