package middleware

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/timed"
)

// hasty is a configuration in which bodies have little time: bodies are inspected, or not.
func hasty(inspected bool) string {
	return fmt.Sprintf("default: {limits: [{in_flight: 1, per: client}]}\nwaf: {enabled: %v, body_timeout: 300ms, min_rate: 1000B/s}\n", inspected)
}

// slowloris's kin (slowhttptest -B): a body that does not come, or comes by drips, is answered 408, and its
// sender's place is free again. A place could be held for ever (issue 2).
func TestASlowBodyGivesItsPlaceBack(t *testing.T) {
	drips := map[string]func(w io.Writer){
		"withheld": func(io.Writer) {},
		"one byte": func(w io.Writer) { io.WriteString(w, "a") },
		"drips": func(w io.Writer) {
			for range 100 {
				if _, err := io.WriteString(w, "a"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		},
	}
	for name, drip := range drips {
		for _, inspected := range []bool{true, false} {
			t.Run(fmt.Sprint(name, "/inspected ", inspected), func(t *testing.T) {
				h := build(t, hasty(inspected))
				client, server := serve(t, http1, h.Wrap(new(reader)))
				conn := dial(t, server)
				began := time.Now()
				io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\n")
				dripping := make(chan struct{})
				go func() { defer close(dripping); drip(conn) }()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || answer.StatusCode != 408 || !answer.Close {
					t.Errorf("got %+v, %v; want 408 and the end of the connection", answer, err)
				}
				if took := time.Since(began); took > timed.Bound(3*time.Second) {
					t.Errorf("it took %v", took)
				}
				conn.Close()
				<-dripping
				if answer, _ := get(t, client, server.URL); answer.StatusCode != 200 {
					t.Errorf("the place is still held: %d", answer.StatusCode)
				}
				if got := h.records(t, 2)[1]; got.Status != 408 || got.Reason != "body too slow" || got.Action != "reject" {
					t.Errorf("recorded %+v", got)
				}
			})
		}
	}
}

// Over HTTP/2 only the stream ends.
func TestASlowStream(t *testing.T) {
	for _, inspected := range []bool{true, false} {
		h := build(t, hasty(inspected))
		client, server := serve(t, h2c, h.Wrap(new(reader)))
		in, out := io.Pipe()
		defer out.Close()
		r, _ := http.NewRequest("POST", server.URL, in)
		answer, body := do(t, client, r)
		if answer.StatusCode != 408 || !strings.Contains(body, "too slowly") {
			t.Errorf("inspected %v: got %d %s", inspected, answer.StatusCode, body)
		}
	}
}

// A body that comes slowly, but not too slowly, passes: what came buys time, and a pause is no end. One that
// is inspected has to be there in time as a whole.
func TestPace(t *testing.T) {
	type step struct {
		pause time.Duration
		bytes int
	}
	pace := weir.Pace{Timeout: 10 * time.Second, MinRate: 500}
	second := func(bytes, times int) []step {
		steps := make([]step, times)
		for i := range steps {
			steps[i] = step{time.Second, bytes}
		}
		return steps
	}
	tests := []struct {
		name  string
		whole bool
		pace  weir.Pace
		steps []step
		after time.Duration // when it ends
		fault weir.Reason
	}{
		{"a stream at twice the rate for a minute", false, pace, second(1000, 60), 60 * time.Second, ""},
		{"a stream at a fifth of the rate", false, pace, second(100, 60), 12400 * time.Millisecond, weir.BodyTooSlow},
		{"a stream that pauses", false, pace, []step{{0, 100_000}, {9999 * time.Millisecond, 1}}, 9999 * time.Millisecond, ""},
		{"a stream that pauses for too long", false, pace, []step{{0, 100_000}, {time.Minute, 1}}, 10 * time.Second, weir.BodyTooSlow},
		{"no least rate", false, weir.Pace{Timeout: 10 * time.Second}, second(1, 60), 60 * time.Second, ""},
		{"the whole in time", true, pace, second(1000, 9), 9 * time.Second, ""},
		{"the whole too late", true, pace, second(1000, 60), 10 * time.Second, weir.BodyTooSlow},
		{"the whole at a fifth of the rate", true, pace, second(100, 9), 6200 * time.Millisecond, weir.BodyTooSlow},
		{"nothing", true, pace, []step{{time.Hour, 1}}, 5 * time.Second, weir.BodyTooSlow},
		{"no pace", true, weir.Pace{}, []step{{time.Hour, 1}}, time.Hour, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &paced{}
				b := &body{ReadCloser: from, to: from, pace: test.pace, whole: test.whole}
				for _, s := range test.steps {
					from.steps = append(from.steps, struct {
						pause time.Duration
						bytes int
					}(s))
				}
				began := time.Now()
				_, err := io.Copy(io.Discard, b)
				got := weir.Reason("")
				if fault := b.fault.Load(); fault != nil {
					got = fault.why
				}
				if took := time.Since(began); took != test.after || got != test.fault || (err == nil) != (got == "") {
					t.Errorf("ended after %v with %q (%v), want %v and %q", took, got, err, test.after, test.fault)
				}
			})
		})
	}
}

// paced is a body that comes in steps, and the writer that has its deadline.
type paced struct {
	http.ResponseWriter
	steps []struct {
		pause time.Duration
		bytes int
	}
	until time.Time
}

func (p *paced) SetReadDeadline(t time.Time) error { p.until = t; return nil }

func (p *paced) Close() error { return nil }

func (p *paced) Read(b []byte) (int, error) {
	if len(p.steps) == 0 {
		return 0, io.EOF
	}
	s := &p.steps[0]
	if left := time.Until(p.until); !p.until.IsZero() && left < s.pause {
		time.Sleep(left)
		return 0, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	}
	time.Sleep(s.pause)
	n := min(len(b), s.bytes)
	if s.pause, s.bytes = 0, s.bytes-n; s.bytes == 0 {
		p.steps = p.steps[1:]
	}
	return n, nil
}

// A body that came in time leaves no deadline behind: what the handler does afterwards may take longer.
func TestNoDeadlineIsLeft(t *testing.T) {
	for _, p := range protocols {
		h := build(t, strings.Replace(hasty(true), "300ms", "1s", 1)) // within which a body comes on a busy machine, too
		client, server := serve(t, p, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(1500 * time.Millisecond):
			}
			all, err := io.ReadAll(r.Body)
			fmt.Fprint(w, string(all), err, r.Context().Err())
		})))
		for range 2 { // the connection is good for another
			answer, body := do(t, client, post(server.URL, "text/plain", "hello"))
			if diff := cmp.Diff([]any{200, "hello<nil> <nil>"}, []any{answer.StatusCode, body}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", p, diff)
			}
		}
	}
}

// post is a request with a body of undeclared length.
func post(url, media, body string) *http.Request {
	r, err := http.NewRequest("POST", url, struct{ io.Reader }{strings.NewReader(body)})
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", media)
	return r
}
