package middleware

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	bound   = 1 << 20
	bounded = `rules: [{name: upload, path: /upload, max_body: 1MiB, limits: [{rate: 5/1h, per: client}]}]`
)

// reader is a handler that reads the whole body and says how much there was.
type reader struct{ read atomic.Int64 }

func (h *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	h.read.Store(n)
	fmt.Fprint(w, n)
}

// nginx#1522: a chunked body escaped the bound that was checked against Content-Length alone.
func TestBodyBound(t *testing.T) {
	tests := []struct {
		name     string
		size     int
		declared bool
		status   int
		read     int64
	}{
		{"at the bound", bound, true, 200, bound},
		{"one above", bound + 1, true, 413, 0},
		{"undeclared at the bound", bound, false, 200, bound},
		{"undeclared one above", bound + 1, false, 413, bound},
		{"undeclared five times", 5 * bound, false, 413, bound},
	}
	for _, test := range tests {
		for _, p := range protocols {
			t.Run(test.name+"/"+string(p), func(t *testing.T) {
				h, handler := build(t, bounded), new(reader)
				client, server := serve(t, p, h.Wrap(handler))
				r, _ := http.NewRequest("POST", server.URL+"/upload", struct{ io.Reader }{bytes.NewReader(make([]byte, test.size))})
				if test.declared {
					r.ContentLength = int64(test.size)
				}
				r.Header.Set("Expect", "100-continue") // so that the answer is read before the body is sent
				client.Transport.(*http.Transport).ExpectContinueTimeout = 10 * time.Second
				answer, body := do(t, client, r)
				if answer.StatusCode != test.status || handler.read.Load() != test.read {
					t.Errorf("got %d, and the handler read %d; want %d and %d", answer.StatusCode, handler.read.Load(), test.status, test.read)
				}
				if test.status == 413 && !strings.Contains(body, `"status":413`) {
					t.Errorf("body: %s", body)
				}
				if got := answer.Header.Get("RateLimit"); !strings.HasPrefix(got, `"upload";r=4;`) {
					t.Errorf("RateLimit: %s", got)
				}
				if got := h.records(t, 1)[0].Status; got != test.status {
					t.Errorf("recorded %d, want %d", got, test.status)
				}
			})
		}
	}
}

// Whatever the handler wants to say once its body was cut short, the answer is 413, whole and alone.
func TestATooLongBodyIsAnsweredForTheHandler(t *testing.T) {
	say := map[string]func(w http.ResponseWriter){
		"nothing": func(http.ResponseWriter) {},
		"a text":  func(w http.ResponseWriter) { io.WriteString(w, "all is well") },
		"a status": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "3")
			w.WriteHeader(502)
			w.Write([]byte("bad"))
		},
		"a copy":  func(w http.ResponseWriter) { io.Copy(w, strings.NewReader("all is well")) },
		"a flush": func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.Write([]byte("well")) },
	}
	for name, write := range say {
		t.Run(name, func(t *testing.T) {
			h := build(t, bounded)
			_, server := serve(t, http1, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				write(w)
			})))
			conn := dial(t, server)
			fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", bound+1, make([]byte, bound+1))
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if answer.StatusCode != 413 || !answer.Close || err != nil || !bytes.HasSuffix(body, []byte("}\n")) || bytes.Contains(body, []byte("well")) {
				t.Errorf("got %d, closing %v, %v:\n%s", answer.StatusCode, answer.Close, err, body)
			}
			h.records(t, 1)
		})
	}
}

// A handler that answers without reading cannot be made to read on.
func TestAnUnreadBodyIsLeft(t *testing.T) {
	h := build(t, bounded)
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
	conn := dial(t, server)
	io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() { // until nobody reads any longer
		for chunk := []byte("10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n"); ; {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != 200 || !answer.Close {
		t.Errorf("got %+v and %v, want 200 and the end of the connection", answer, err)
	}
}

// warp#383: 100 Continue was sent although the request was to be refused, and 10 MB came for nothing.
func TestNoContinueBeforeARefusal(t *testing.T) {
	tests := []struct {
		name, config, length string
		want                 []string
	}{
		{"over the limit", `default: {limits: [{rate: 0/1h, per: client}]}`, "11534536", []string{"429"}},
		{"declared too long", bounded, "11534536", []string{"413"}},
		{"tarpit", `rules: [{name: pit, path: /upload, action: tarpit, tarpit: {delay: 1ms, max_held: 9, max_held_per_client: 9}, limits: [{rate: 0/1h, per: client}]}]`, "4", []string{"429"}},
		{"admitted", bounded, "4", []string{"100", "200"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := build(t, test.config)
			_, server := serve(t, http1, h.Wrap(new(reader)))
			conn := dial(t, server)
			io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "+test.length+"\r\n\r\n")
			if got := statusLines(t, conn, "body"); !cmp.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// statusLines returns the statuses that come on conn, and sends body when told to go on.
func statusLines(t *testing.T, conn net.Conn, body string) []string {
	t.Helper()
	var got []string
	for lines := bufio.NewReader(conn); ; {
		answer, err := http.ReadResponse(lines, nil)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, answer.Status[:3])
		if answer.StatusCode != 100 {
			return got
		}
		io.WriteString(conn, body)
	}
}
