package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ended reports whether the other side ends c soon.
func ended(c net.Conn) bool {
	_, err := io.Copy(io.Discard, c)
	timeout, ok := err.(net.Error)
	return !ok || !timeout.Timeout()
}

// Where the room is full, those who never asked for anything make room before those who did, if they are more, the
// oldest first; each is told of; and a place is given back once.
func TestTheOldestMakeRoom(t *testing.T) {
	var told atomic.Int64
	o := Options{MaxOpen: 4, Refused: func(fault string, peer netip.Addr) {
		if fault == Crowded && peer.IsLoopback() {
			told.Add(1)
		}
	}}
	h := build(t, plan{options: o, upstream: http.HandlerFunc(echo)})
	guests := func() int {
		h.room.mu.Lock()
		defer h.room.mu.Unlock()
		return len(h.room.guests)
	}
	kept := h.dial()
	answers := bufio.NewReader(kept)
	ask := func() int {
		io.WriteString(kept, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answer, _, _ := h.hear(answers)
		return answer.StatusCode
	}
	if ask() != 200 {
		t.Fatal("no answer")
	}
	var silent []net.Conn
	for i := range 5 {
		silent = append(silent, h.dial())
		h.eventually("a place", func() bool { return guests() == min(2+i, 4) && told.Load() == int64(max(0, i-2)) })
	}
	if !ended(silent[0]) || !ended(silent[1]) {
		t.Error("the oldest are held")
	}
	if ask() != 200 {
		t.Error("who had asked has made room")
	}
	for _, c := range silent {
		c.Close()
	}
	h.eventually("an empty room", func() bool { return guests() == 1 })
	kept.Close()
	h.eventually("an empty room", func() bool { return guests() == 0 })
}

// A connection that changed to another protocol keeps its place, and is never closed for another.
func TestAnUpgradedConnectionStays(t *testing.T) {
	h := build(t, plan{options: Options{MaxOpen: 1}, upstreams: UpstreamOptions{Default: raw(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		io.Copy(c, c)
	})}})
	c := h.dial()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	r := bufio.NewReader(c)
	if answer, err := http.ReadResponse(r, nil); err != nil || answer.StatusCode != 101 {
		t.Fatal(answer, err)
	}
	if !ended(h.dial()) {
		t.Error("a second is held")
	}
	io.WriteString(c, "on\n")
	if got, err := r.ReadString('\n'); got != "on\n" || err != nil {
		t.Errorf("the first: %q, %v", got, err)
	}
}

// Connections to upstreams are as many as may be, and no more; one that cannot be made leaves no trace.
func TestLinksAreBounded(t *testing.T) {
	links := NewLinks(1)
	release := make(chan bool)
	refused := make(chan string, 10)
	o := Options{Refused: func(fault string, peer netip.Addr) { refused <- fault + " from " + peer.String() }}
	h := build(t, plan{options: o, upstreams: UpstreamOptions{Links: links}, upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			<-release
		}
	})})
	client := h.client("HTTP/1.1")
	first := make(chan int, 1)
	go func() {
		answer, err := client.Get(h.url("/held"))
		if err != nil {
			first <- 0
			return
		}
		answer.Body.Close()
		first <- answer.StatusCode
	}()
	h.eventually("the link", func() bool { return links.open.Load() == 1 && h.InFlight() == 1 })
	if answer, _ := h.get(client, "/"); answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("answered %d %v, want 503", answer.StatusCode, answer.Header)
	}
	if got, want := told(refused), NoLink+" from 127.0.0.1"; got != want || len(refused) > 0 || !slices.Contains(Faults(), NoLink) {
		t.Errorf("told of %q and %d more, want %q", got, len(refused), want)
	}
	if err := told(h.ends); err != nil {
		t.Errorf("the upstream, which was not asked, failed: %v", err)
	}
	close(release)
	if got := told(first); got != 200 {
		t.Errorf("the first is answered %d", got)
	}
	h.eventually("a link that is used again", func() bool { answer, _ := h.get(client, "/"); return answer.StatusCode == 200 })
	dead := NewLinks(1)
	dead.bound((&net.Dialer{Timeout: time.Second}).DialContext)(t.Context(), "tcp", "127.0.0.1:1")
	if n := dead.open.Load(); n != 0 {
		t.Errorf("%d links are open", n)
	}
}

// A connection that one upstream keeps unused makes room for one to another, whether there is a body or not.
func TestUnusedLinksMakeRoom(t *testing.T) {
	links := NewLinks(1)
	quiet, busy := serve(t, http.HandlerFunc(echo)), serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	h := build(t, plan{
		yaml:      watchOnly + "routes: [{path: /quiet, upstream: \"" + quiet.URL + "\"}]\nupstream: " + busy.URL + "\nlisten: \":0\"\n",
		upstreams: UpstreamOptions{Links: links, Routes: []string{quiet.URL}, Default: busy.URL},
	})
	client := h.client("HTTP/1.1")
	for range 3 {
		if answer, _ := h.get(client, "/quiet"); answer.StatusCode != 200 {
			t.Errorf("the quiet upstream: %d", answer.StatusCode)
		}
		answer, err := client.Post(h.url("/"), "text/plain", strings.NewReader("a body"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 || string(body) != "a body" {
			t.Errorf("the busy upstream: %d %q", answer.StatusCode, body)
		}
	}
	if n := links.open.Load(); n != 1 {
		t.Errorf("%d links are open, want 1", n)
	}
}

// Where all were at work, nobody is looked for again before a hundredth of a second is over.
func TestARoomAtWorkIsNotSearchedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{most: 1, guests: make(map[*guest]struct{})}
		g := &guest{room: r}
		r.guests[g] = struct{}{}
		looks := []struct {
			after time.Duration
			waits int64
			found int
		}{{0, 0, 0}, {busyTime - 1, 1, 0}, {1, 1, 1}, {0, 1, 1}, {0, 0, 0}}
		for i, x := range looks {
			time.Sleep(x.after)
			g.waits.Store(x.waits)
			if got := len(r.waiting()); got != x.found {
				t.Errorf("look %d: %d wait, want %d", i, got, x.found)
			}
		}
	})
}

// An expectation beside 100-continue and a target that is none are not passed on.
func TestWhatIsNotForwarded(t *testing.T) {
	var seen atomic.Int64
	h := build(t, plan{upstream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) })})
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: y 100-continue\r\n\r\n":                       417,
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, tea\r\n\r\n":                    417,
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n\r\n": 417,
		"GET * HTTP/1.1\r\nHost: a\r\n\r\n":                                                 400,
	} {
		if answer, _, closed := h.say(request); answer.StatusCode != want || !closed {
			t.Errorf("%q: %d, ended %v", request, answer.StatusCode, closed)
		}
	}
	if seen.Load() > 0 {
		t.Error("something was passed on")
	}
	h.recorded(4)
}
