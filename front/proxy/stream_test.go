package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
)

var protocols = []string{"HTTP/1.1", "h2c", "h2"}

// headerTime is a bound for headers that streams must outlive, and that a busy machine keeps.
const headerTime = time.Second

// options returns what a proxy needs to speak a protocol.
func options(t testing.TB, protocol string) Options {
	if protocol == "h2" {
		return secure(t)
	}
	return Options{}
}

// Each event arrives before the next is sent (PRX-15), and no time-out ends the stream (PRX-12).
func TestEventsArriveAtOnce(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			next := make(chan bool)
			o := options(t, protocol)
			o.HeaderTimeout = headerTime
			h := build(t, plan{options: o, upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 3 {
					_ = http.NewResponseController(w).Flush()
					<-next
					fmt.Fprintf(w, "data: %d\n\n", i)
				}
			})})
			answer, err := h.client(protocol).Get(h.url("/"))
			if err != nil {
				t.Fatalf("the header: %v", err)
			}
			r := bufio.NewReader(answer.Body)
			time.Sleep(2 * headerTime)
			for i := range 3 {
				next <- true
				line, err := r.ReadString('\n')
				if _, _ = r.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Errorf("got %q %v", line, err)
				}
			}
			answer.Body.Close()
		})
	}
}

// A request body and its answer stream both ways at once, from and to every protocol.
func TestStreamsBothWays(t *testing.T) {
	pingPong := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		_ = c.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, "pong", lines.Text())
			_ = c.Flush()
		}
	})
	s := serve(t, pingPong)
	for _, scheme := range []string{"http", "h2c"} {
		for _, protocol := range protocols {
			t.Run(protocol+" to "+scheme, func(t *testing.T) {
				t.Parallel()
				o := options(t, protocol)
				o.HeaderTimeout = headerTime
				h := build(t, plan{options: o, upstreams: UpstreamOptions{Default: strings.Replace(s.URL, "http", scheme, 1)}})
				r, w := io.Pipe()
				answer, err := h.client(protocol).Post(h.url("/"), "text/plain", r)
				if err != nil {
					t.Fatal(err)
				}
				got := bufio.NewScanner(answer.Body)
				time.Sleep(2 * headerTime)
				for i := range 3 {
					fmt.Fprintln(w, i)
					if !got.Scan() || got.Text() != fmt.Sprint("pong ", i) {
						t.Errorf("%q %v", got.Text(), got.Err())
					}
				}
				w.Close()
				if got.Scan() || got.Err() != nil {
					t.Errorf("no end: %q %v", got.Text(), got.Err())
				}
				answer.Body.Close()
			})
		}
	}
}

// Trailers arrive both ways: announced, unannounced, and after an empty body (PRX-19).
func TestTrailersArrive(t *testing.T) {
	seen := make(chan http.Header, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
		if r.URL.Path == "/announced" {
			w.Header().Set("Trailer", "A")
			defer w.Header().Set("A", "1")
		}
		if r.URL.Path != "/empty" {
			io.WriteString(w, "body")
			_ = http.NewResponseController(w).Flush() // or net/http finds a length, and no room for trailers
		}
		w.Header().Set(http.TrailerPrefix+"B", "2")
	}))
	for _, protocol := range protocols {
		h := build(t, plan{options: options(t, protocol), upstreams: UpstreamOptions{Default: s.URL}})
		for path, want := range map[string]http.Header{"/announced": {"A": {"1"}, "B": {"2"}}, "/": {"B": {"2"}}, "/empty": {"B": {"2"}}} {
			r, _ := http.NewRequest("POST", h.url(path), io.MultiReader(strings.NewReader("x"))) // of unknown length
			r.Trailer = http.Header{"C": {"3"}, "X-Forwarded-For": {"1.2.3.4"}, "X_weir_plan": {"gold"}}
			answer, err := h.client(protocol).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if diff := cmp.Diff(want, answer.Trailer); diff != "" {
				t.Errorf("%s %s: answer: %s", protocol, path, diff)
			}
			if diff := cmp.Diff(http.Header{"C": {"3"}}, <-seen); diff != "" {
				t.Errorf("%s %s: request: %s", protocol, path, diff)
			}
		}
	}
}

func TestUnannouncedRequestTrailersArrive(t *testing.T) {
	seen := make(chan http.Header, 1)
	h := build(t, plan{upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Trailer = make(http.Header)
		io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
	})})
	h.say(post("Transfer-Encoding: chunked", "", "1", "x", "0", "C: 3", "X.Forwarded.For: 1.2.3.4", "", ""))
	got := <-seen
	if got.Get("C") != "3" || len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// frame puts a message into gRPC's framing.
func frame(message string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(b, message...)
}

// A gRPC server stream that fails after three messages arrives with its status (PRX-19), and one that
// fails at once too.
func TestGRPCPassesThrough(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.URL.Path == "/trailers.only" {
			w.Header().Set("Grpc-Status", "5")
			return
		}
		if r.Header.Get("Te") != "trailers" || r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusTeapot)
		}
		body, _ := io.ReadAll(r.Body)
		for range 3 {
			w.Write(body)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "10")
		w.Header().Set(http.TrailerPrefix+"X-Detail", "d")
	}))
	for _, protocol := range []string{"h2c", "h2"} {
		h := build(t, plan{options: options(t, protocol), upstreams: UpstreamOptions{Default: strings.Replace(s.URL, "http", "h2c", 1)}})
		call := func(path string) (*http.Response, []byte) {
			r, _ := http.NewRequest("POST", h.url(path), bytes.NewReader(frame("hello")))
			r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
			answer, err := h.client(protocol).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer, body
		}
		answer, body := call("/service.Name/Method")
		if !bytes.Equal(body, bytes.Repeat(frame("hello"), 3)) || answer.StatusCode != 200 {
			t.Errorf("%s: %d %q", protocol, answer.StatusCode, body)
		}
		if diff := cmp.Diff(http.Header{"Grpc-Status": {"10"}, "X-Detail": {"d"}}, answer.Trailer); diff != "" {
			t.Errorf("%s: %s", protocol, diff)
		}
		if answer, _ = call("/trailers.only"); answer.Header.Get("Grpc-Status") != "5" {
			t.Errorf("%s: trailers only: %v", protocol, answer.Header)
		}
	}
}

// A gRPC caller learns that the upstream is away in its own words.
func TestUnreachableUpstreamInGRPC(t *testing.T) {
	h := build(t, plan{upstreams: UpstreamOptions{Default: "h2c://" + closedPort(t)}})
	r, _ := http.NewRequest("POST", h.url("/s/m"), bytes.NewReader(frame("x")))
	r.Header.Set("Content-Type", "application/grpc")
	answer, err := h.client("h2c").Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if got := answer.Header.Get("Grpc-Status"); answer.StatusCode != 200 || got != "14" {
		t.Errorf("HTTP status %d, gRPC status %q, want UNAVAILABLE", answer.StatusCode, got)
	}
}

// 100 Continue is the upstream's to give; a refusal comes without it, at once (PRX-10).
func TestContinueIsTheUpstreams(t *testing.T) {
	h := build(t, plan{
		yaml: "rules: [{name: tight, path: /tight, limits: [{rate: 0/1m}]}, {name: small, path: /small, max_body: 1KiB, limits: [{rate: 9/1m}]}]",
		upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/no" {
				w.WriteHeader(http.StatusExpectationFailed)
				return
			}
			io.Copy(w, r.Body)
		}),
	})
	ask := func(path string) (*bufio.Reader, net.Conn) {
		c := h.dial()
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n", path)
		return bufio.NewReader(c), c
	}
	for path, want := range map[string]int{"/no": 417, "/tight": 429, "/small": 413} {
		r, _ := ask(path)
		if answer, err := http.ReadResponse(r, nil); err != nil || answer.StatusCode != want {
			t.Errorf("%s: %v %v, want %d", path, answer, err, want)
		}
	}
	r, c := ask("/yes")
	if answer, err := http.ReadResponse(r, nil); err != nil || answer.StatusCode != 100 {
		t.Fatalf("want 100 Continue: %v %v", answer, err)
	}
	io.WriteString(c, strings.Repeat("x", 5000))
	if answer, body, _ := h.hear(r); answer.StatusCode != 200 || len(body) != 5000 {
		t.Errorf("%d, %d bytes", answer.StatusCode, len(body))
	}
}

// Whose body is inspected was told to go on by us: the upstream is not asked to, nor waited for, and its
// word does not come as a second one.
func TestContinueIsOursWhereTheBodyIsRead(t *testing.T) {
	h := build(t, plan{yaml: watchOnly + "waf: {ruleset: fast}\n", upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // which tells who asked to
		echo(w, r)
	})})
	c := h.dial()
	io.WriteString(c, lines("POST / HTTP/1.1", "Host: a", "Expect: 100-continue", "Content-Length: 3", "", ""))
	r := bufio.NewReader(c)
	if answer, err := http.ReadResponse(r, nil); err != nil || answer.StatusCode != 100 {
		t.Fatalf("want 100 Continue: %v %v", answer, err)
	}
	io.WriteString(c, "a=b")
	if answer, body, _ := h.hear(r); answer.StatusCode != 200 || strings.Contains(body, "Expect") {
		t.Errorf("%d, and the upstream got\n%s", answer.StatusCode, body)
	}
}

// An upstream that answers before it has read the body is heard at once.
func TestEarlyAnswer(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusForbidden)
	})})
	c := h.dial()
	io.WriteString(c, post("Content-Length: 100000", "", "begun"))
	if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != 403 {
		t.Errorf("%v %v", answer, err)
	}
}

const slot = "default: {limits: [{name: slots, in_flight: 1}]}"

// A client that goes away is no fault of the upstream's (PRX-01): its request is cancelled, its slot
// free, and the outcome says who left.
func TestClientGoesAway(t *testing.T) {
	for _, protocol := range protocols {
		began, ended := make(chan bool, 1), make(chan bool, 1)
		h := build(t, plan{yaml: slot, options: options(t, protocol), upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/free" {
				return
			}
			began <- true
			<-r.Context().Done()
			ended <- true
		})})
		ctx, leave := context.WithCancel(context.Background())
		go func() { <-began; leave() }()
		r, _ := http.NewRequestWithContext(ctx, "GET", h.url("/"), nil)
		if answer, err := h.client(protocol).Do(r); err == nil {
			t.Errorf("%s: answered %d", protocol, answer.StatusCode)
		}
		<-ended
		if got := h.recorded(1)[0]; got.Status != 0 {
			t.Errorf("%s: HTTP status %d", protocol, got.Status)
		}
		if err := <-h.ends; !errors.Is(err, errClientGone) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ended by %v", protocol, err)
		}
		h.free()
	}
}

// free fails if the one slot is not free. The upstream must answer /free at once.
func (h *house) free() {
	h.t.Helper()
	h.eventually("the slot", func() bool { return h.InFlight() == 0 })
	answer, err := h.client("HTTP/1.1").Get(h.url("/free"))
	if err != nil {
		return // it passed, and the upstream died once more
	}
	answer.Body.Close()
	if answer.StatusCode == 429 {
		h.t.Error("the slot is still held")
	}
}

// An upstream that dies mid-body leaves an answer that the client can see to be broken.
func TestUpstreamDiesMidBody(t *testing.T) {
	for _, head := range []string{"Content-Length: 100\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
		for _, protocol := range protocols {
			upstream := raw(t, func(c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head)
			})
			h := build(t, plan{yaml: slot, options: options(t, protocol), upstreams: UpstreamOptions{Default: upstream}})
			answer, err := h.client(protocol).Get(h.url("/"))
			if err != nil {
				continue // it may show as early as that
			}
			if body, err := io.ReadAll(answer.Body); err == nil {
				t.Errorf("%s: %q looks complete", protocol, body)
			}
			answer.Body.Close()
			h.recorded(1)
			if err := <-h.ends; err != errUpstreamDied {
				t.Errorf("%s: ended by %v", protocol, err)
			}
			h.free()
		}
	}
}

// A reader that takes nothing is given up, and holds neither the upstream nor its slot.
func TestSlowReaderIsGivenUp(t *testing.T) {
	for _, protocol := range protocols {
		ended := make(chan bool)
		o := options(t, protocol)
		o.IdleTimeout = time.Second
		h := build(t, plan{yaml: slot, options: o, upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			for chunk := make([]byte, 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})})
		answer, err := h.client(protocol).Get(h.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Errorf("%s: the upstream is still writing", protocol)
		}
		h.recorded(1)
		if err := <-h.ends; !errors.Is(err, errClientGone) || !errors.Is(err, context.Canceled) { // not the upstream's failure
			t.Errorf("%s: ended by %v", protocol, err)
		}
		answer.Body.Close()
	}
}

func TestErrorsOfTheUpstream(t *testing.T) {
	silent := raw(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	garbage := raw(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "what?\r\n\r\n")
	})
	noStatus := raw(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 099 ?\r\nContent-Length: 0\r\n\r\n")
	})
	tests := []struct {
		upstream UpstreamOptions
		want     int
	}{
		{UpstreamOptions{Default: "http://" + closedPort(t)}, 502},
		{UpstreamOptions{Default: garbage}, 502},
		{UpstreamOptions{Default: noStatus}, 502},
		{UpstreamOptions{Default: silent, ResponseHeader: 50 * time.Millisecond}, 504},
	}
	for _, x := range tests {
		h := build(t, plan{upstreams: x.upstream})
		answer, body := h.get(h.client("HTTP/1.1"), "/")
		if answer.StatusCode != x.want || answer.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(body, "127.0.0.1") {
			t.Errorf("got %d %s, want %d", answer.StatusCode, body, x.want)
		}
		h.recorded(1)
		if err := <-h.ends; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%d: ended by %v", x.want, err)
		}
	}
}

// closedPort returns an address where nobody listens.
func closedPort(t testing.TB) string {
	addr, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestLateMeansTheAnswer(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	tests := map[error]bool{
		errors.New("x"): false,
		timeout:         true,
		&net.OpError{Op: "dial", Err: context.DeadlineExceeded}: false,
		fmt.Errorf("round trip: %w", timeout):                   true,
	}
	for err, want := range tests {
		if late(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// Informational answers come before the final one (RFC 9110 section 15.2), over HTTP/1.1 only.
func TestEarlyHints(t *testing.T) {
	for _, protocol := range protocols {
		h := build(t, plan{options: options(t, protocol), upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		})})
		var hints []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(status, header.Get("Link")))
				return nil
			}})
		r, _ := http.NewRequestWithContext(ctx, "GET", h.url("/"), nil)
		answer, err := h.client(protocol).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		var want []string
		if protocol == "HTTP/1.1" {
			want = []string{"103</a.css>"}
		}
		if diff := cmp.Diff(want, hints); diff != "" || answer.Header.Get("Link") != "" {
			t.Errorf("%s: %s %v", protocol, diff, answer.Header)
		}
	}
}

// While the proxy drains, the final answer says that it is the last, and an informational one does not.
func TestEarlyHintsAreNotTheLastAnswer(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/holds" {
			close(began)
			<-goOn
			return
		}
		w.WriteHeader(http.StatusEarlyHints)
	})})
	holds, asks := h.dial(), h.dial()
	io.WriteString(holds, "GET /holds HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	r := bufio.NewReader(asks)
	ask := func() (last bool) {
		io.WriteString(asks, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		hint, err := http.ReadResponse(r, nil)
		if err != nil || hint.StatusCode != http.StatusEarlyHints || hint.Close {
			t.Fatalf("%v, %v, want 103 and no word of an end", hint, err)
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", answer, err)
		}
		return answer.Close
	}
	ask() // so that the connection was accepted
	drained := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		drained <- h.Drain(ctx)
	}()
	for !ask() { // until the drain has begun
	}
	close(goOn)
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
