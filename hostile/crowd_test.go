package hostile_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// descriptors are as few as Weir gets along with: it lets 72 clients in, and as many connections to upstreams.
const (
	descriptors = 192
	places      = 72
)

// A held is a service whose answers under /held last until it is released.
type held struct {
	url     string
	release func()
}

func hold(t testing.TB) *held {
	ends := make(chan bool)
	h := &held{release: sync.OnceFunc(func() { close(ends) })}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/held") {
			io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			select {
			case <-ends:
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, "done")
	}))
	t.Cleanup(s.Close)
	t.Cleanup(h.release)
	h.url = s.URL
	return h
}

// crowd starts Weir with few descriptors before a service.
func crowd(t testing.TB, h *held) *process {
	return start(t, descriptors, "listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: \""+h.url+
		"\"\nwaf: {enabled: false}\ndefault: {limits: []}\nserver: {header_timeout: 60s}\n")
}

// asks sends a request and waits for the answer's header.
func (w *process) asks(path string) (net.Conn, *http.Response, error) {
	c := w.dial("listen")
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return c, nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	return c, answer, err
}

// healthy complains unless the admin address answers, and a newcomer is served.
func (w *process) healthy(t *testing.T, when string) {
	t.Helper()
	for front, path := range map[string]string{"admin": "/livez", "listen": "/"} {
		if status, _, err := w.get(front, path); status != 200 {
			t.Errorf("%s: %s: %d, %v", when, front, status, err)
		}
	}
}

// told complains unless the log says once that there is no room.
func (w *process) told(t *testing.T) {
	t.Helper()
	if n := len(w.lines("no room for further connections")); n != 1 {
		t.Errorf("the log says %d times that there is no room:\n%s", n, w.Log())
	}
	if n := strings.Count(w.Log(), "\n"); n > 10 {
		t.Errorf("the log has %d lines:\n%s", n, w.Log())
	}
	if n := len(w.lines("too many open files")); n > 0 {
		t.Errorf("descriptors ran out:\n%s", w.Log())
	}
}

// Connections that ask for nothing, ten times as many as there is room for, neither end what is under way nor keep
// anybody out; the oldest of them make room. They may be silent, have half a header, or had an answer.
func TestIdleConnections(t *testing.T) {
	for name, first := range map[string]string{
		"silent":        "",
		"half a header": "GET / HTTP/1.1\r\nHost: a\r\nX: ",
		"kept":          "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"HTTP/2":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			service := hold(t)
			w := crowd(t, service)
			_, established, err := w.asks("/held")
			if err != nil {
				t.Fatal(err)
			}
			var attackers []net.Conn
			for i := range 10 * places {
				c := w.dial("listen")
				attackers = append(attackers, c)
				io.WriteString(c, first) // it may be closed by now
				if i%places == places-1 {
					w.healthy(t, fmt.Sprint("with ", i+1))
				}
			}
			if n := w.metric(`weir_refused_connections_total{fault="too_many_connections"}`); n < 8*places {
				t.Errorf("%v connections were closed for want of room", n)
			}
			for _, c := range attackers {
				c.Close()
			}
			w.healthy(t, "afterwards")
			service.release()
			if body, err := io.ReadAll(established.Body); string(body) != "begundone" || err != nil {
				t.Errorf("what was under way: %q, %v", body, err)
			}
			w.told(t)
		})
	}
}

// Where every place has a request under way newcomers are closed at once; the admin address goes on, and so does Weir
// as soon as a place is free.
func TestBusyConnections(t *testing.T) {
	service := hold(t)
	w := crowd(t, service)
	var turned int
	for range 2 * places {
		_, answer, err := w.asks("/held")
		switch {
		case err != nil:
			turned++
		case answer.StatusCode != 200:
			t.Errorf("answered %d", answer.StatusCode)
		}
	}
	if turned != places {
		t.Errorf("%d were turned away, want %d", turned, places)
	}
	if status, _, err := w.get("admin", "/livez"); status != 200 {
		t.Errorf("admin: %d, %v", status, err)
	}
	w.told(t)
	service.release()
	w.await("room again", func() error {
		status, _, err := w.get("listen", "/")
		if status != 200 {
			return fmt.Errorf("%d, %w", status, err)
		}
		return nil
	})
}

// One connection of HTTP/2 asks for more than the upstream may have connections: what is too much is answered 503,
// and costs no descriptor.
func TestStreamsBeyondTheUpstreamsRoom(t *testing.T) {
	service := hold(t)
	w := crowd(t, service)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	counts := make(map[int]int)
	for range places + 50 {
		answer, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Get("http://" + w.where["listen"].(string) + "/held")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		counts[answer.StatusCode]++
		if answer.StatusCode == 503 && answer.Header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
	if counts[200] != places || counts[503] != 50 {
		t.Errorf("answered %v, want 200 %d times and 503 50 times", counts, places)
	}
	if status, _, err := w.get("admin", "/livez"); status != 200 {
		t.Errorf("admin: %d, %v", status, err)
	}
	service.release()
	w.await("room again", func() error {
		status, _, err := w.get("listen", "/")
		if status != 200 {
			return fmt.Errorf("%d, %w", status, err)
		}
		return nil
	})
}

// The admin address holds so many connections, and gives each place back.
func TestCrowdAtTheAdminAddress(t *testing.T) {
	w := crowd(t, hold(t))
	var crowd []net.Conn
	for range descriptors {
		c, err := net.Dial("tcp", w.where["admin"].(string))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	last := crowd[len(crowd)-1]
	_ = last.SetReadDeadline(time.Now().Add(proctest.Patience))
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the last is open: %v", err)
	}
	if status, _, err := w.get("listen", "/"); status != 200 {
		t.Errorf("the proxy: %d, %v", status, err)
	}
	for _, c := range crowd {
		c.Close()
	}
	w.await("the admin address", func() error {
		if status, _, err := w.get("admin", "/livez"); status != 200 {
			return fmt.Errorf("%d, %w", status, err)
		}
		return nil
	})
}
