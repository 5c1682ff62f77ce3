package middleware

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// PRX-24, gram#4961: a wrapped writer hid flushing, taking over and deadlines. A handler finds the same
// interfaces and gets the same errors with the middleware as without.
func TestTheWriterIsWhatItStandsBefore(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			var with, without map[string]string
			bare, server := serve(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { without = abilities(w) }))
			get(t, bare, server.URL)
			wrapped, server := serve(t, p, build(t, ``).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { with = abilities(w) })))
			get(t, wrapped, server.URL)
			if diff := cmp.Diff(without, with); diff != "" {
				t.Errorf("abilities (-without +with the middleware):\n%s", diff)
			}
		})
	}
}

// abilities is what a handler can do with its writer.
func abilities(w http.ResponseWriter) map[string]string {
	rc := http.NewResponseController(w)
	can := map[string]string{
		"read deadline":  fmt.Sprint(rc.SetReadDeadline(time.Now().Add(time.Minute))),
		"write deadline": fmt.Sprint(rc.SetWriteDeadline(time.Now().Add(time.Minute))),
		"full duplex":    fmt.Sprint(rc.EnableFullDuplex()),
		"flush":          fmt.Sprint(rc.Flush()),
	}
	_, flusher := w.(http.Flusher)
	_, hijacker := w.(http.Hijacker)
	_, readerFrom := w.(io.ReaderFrom)
	_, stringWriter := w.(io.StringWriter)
	can["interfaces"] = fmt.Sprint(flusher, hijacker, readerFrom, stringWriter)
	return can
}

// Each event is there before the next one is asked for.
func TestEventsArriveAtOnce(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			next := make(chan string)
			client, server := serve(t, p, build(t, ``).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.(http.Flusher).Flush()
				for event := range next {
					fmt.Fprintf(w, "data: %s\n", event)
					w.(http.Flusher).Flush()
				}
			})))
			answer, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			lines := bufio.NewReader(answer.Body)
			for i := range 5 {
				next <- fmt.Sprint(i)
				if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("event %d: got %q, %v", i, line, err)
				}
			}
			close(next)
		})
	}
}

func TestReadDeadlineReachesTheConnection(t *testing.T) {
	_, server := serve(t, http1, build(t, ``).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(-time.Second))
		_, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, err != nil)
	})))
	conn := dial(t, server)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(answer.Body); string(body) != "true" {
		t.Errorf("the read failed: %s", body)
	}
}

// sendfile is a writer that notes what it was given to send.
type sendfile struct {
	httptest.ResponseRecorder
	sent io.Reader
}

func (w *sendfile) ReadFrom(from io.Reader) (int64, error) { w.sent = from; return 7, nil }

func TestReadFromReachesTheConnection(t *testing.T) {
	file := strings.NewReader("a file")
	to := &sendfile{}
	x := exchange{call: Call{Snapshot: build(t, ``).engine.Current(), Decision: new(weir.Decision)}}
	x.w.to, x.w.exchange = to, &x
	if n, err := x.w.ReadFrom(file); n != 7 || err != nil || to.sent != io.Reader(file) {
		t.Errorf("sent %v: %d, %v", to.sent, n, err)
	}
}

// taken is a connection that somebody else has already.
type taken struct{ httptest.ResponseRecorder }

func (w *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrHijacked }

// What the handler says after it could not take over is what counts, and its copies arrive.
func TestATakeOverThatFails(t *testing.T) {
	h, w := build(t, ``), &taken{*httptest.NewRecorder()}
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("taken over: %v", err)
		}
		w.WriteHeader(501)
		w.(io.ReaderFrom).ReadFrom(strings.NewReader("sorry"))
	})).ServeHTTP(w, local("GET", "/", "192.0.2.1"))
	if got := h.records(t, 1)[0].Status; got != 501 || w.Code != 501 || w.Body.String() != "sorry" {
		t.Errorf("recorded %d, sent %d %q, want 501 and sorry", got, w.Code, w.Body)
	}
}

// plain is a writer with nothing beyond its interface.
type plain struct {
	http.ResponseWriter
}

func TestAPlainWriterServes(t *testing.T) {
	w := httptest.NewRecorder()
	var flushed error
	build(t, ``).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, hijacker := w.(http.Hijacker); hijacker {
			t.Error("it can be taken over")
		}
		io.Copy(w, bytes.NewReader([]byte("copied")))
		flushed = http.NewResponseController(w).Flush()
	})).ServeHTTP(plain{w}, local("GET", "/", "192.0.2.1"))
	if w.Body.String() != "copied" || !errors.Is(flushed, http.ErrNotSupported) {
		t.Errorf("got %q, flush %v", w.Body, flushed)
	}
}

// A status that comes a second time is net/http's to complain of; the first counts.
func TestTheFirstStatusCounts(t *testing.T) {
	h := build(t, ``)
	client, server := serve(t, http1, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(404)
		w.WriteHeader(200)
	})))
	answer, _ := get(t, client, server.URL)
	if got := h.records(t, 1)[0].Status; got != 404 || answer.StatusCode != 404 {
		t.Errorf("recorded %d, sent %d, want 404", got, answer.StatusCode)
	}
}

// Hints go out as they are, as often as the handler likes, without our fields.
func TestHints(t *testing.T) {
	h := build(t, ``)
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(103)
		w.WriteHeader(103)
		w.WriteHeader(204)
	})))
	conn := dial(t, server)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	lines := bufio.NewReader(conn)
	var got [][2]any
	for range 3 {
		answer, err := http.ReadResponse(lines, nil)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, [2]any{answer.StatusCode, answer.Header.Get("RateLimit") != ""})
	}
	if diff := cmp.Diff([][2]any{{103, false}, {103, false}, {204, true}}, got); diff != "" {
		t.Errorf("status and whether RateLimit is there (-want +got):\n%s", diff)
	}
	if got := h.records(t, 1)[0].Status; got != 204 {
		t.Errorf("recorded %d, want 204", got)
	}
}
