package engine_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// sendAs decides a request that bears a nonce.
func (h *house) sendAs(header http.Header) {
	s := h.Current()
	req := request("/")
	req.Header = header
	h.Record(s, h.Decide(context.Background(), s, req), weir.Outcome{HTTP: 200})
}

func bearing(nonce string) http.Header { return http.Header{engine.NonceHeader: {nonce}} }

// The first request that bears the nonce is seen, with every hop, and no other; it is decided as ever.
func TestWatch(t *testing.T) {
	h := build(t, "client: {trusted_proxies: [192.0.2.0/24]}\ndefault: {limits: [{rate: 5/1m}]}")
	nonce, err := h.Watch()
	if err != nil {
		t.Fatal(err)
	}
	h.sendAs(http.Header{})
	h.sendAs(bearing("another"))
	h.sendAs(http.Header{engine.NonceHeader: {nonce, nonce}})
	if seen, known := h.Sighting(nonce); seen != nil || !known {
		t.Fatalf("%+v, %v before it arrived", seen, known)
	}
	first := bearing(nonce)
	first["X-Forwarded-For"], first["Cookie"], first["X-Real-Ip"] = []string{"1.2.3.4", "203.0.113.7"}, []string{"secret"}, []string{strings.Repeat("x", 600)}
	h.sendAs(first)
	h.sendAs(bearing(nonce)) // too late: it is for one
	seen, _ := h.Sighting(nonce)
	if seen == nil {
		t.Fatal("it was not seen")
	}
	want := []engine.Line{{"X-Forwarded-For", "1.2.3.4"}, {"X-Forwarded-For", "203.0.113.7"}, {"X-Real-Ip", strings.Repeat("x", 512)}}
	if diff := cmp.Diff(want, seen.Lines); diff != "" || !seen.At.Equal(noon) || seen.Front != "proxy" || len(seen.Client.Hops) == 0 {
		t.Errorf("%+v, -want +got:\n%s", seen, diff)
	}
	if n := h.journal.Totals().Requests; n != 5 {
		t.Errorf("%d requests were recorded, want all 5", n)
	}
}

// A nonce lives for a minute, whether its request came or not, and 16 live at a time.
func TestWatchIsBounded(t *testing.T) {
	h := build(t, "")
	first, _ := h.Watch()
	for range 15 {
		if _, err := h.Watch(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Watch(); !errors.Is(err, engine.ErrTooManyWatched) {
		t.Errorf("the 17th: %v", err)
	}
	h.at(engine.NonceLife)
	h.sendAs(bearing(first))
	if seen, known := h.Sighting(first); seen == nil || !known {
		t.Error("it was not seen in its last moment")
	}
	h.at(engine.NonceLife + time.Nanosecond)
	if _, known := h.Sighting(first); known {
		t.Error("it is known after its minute")
	}
	second, err := h.Watch()
	if err != nil {
		t.Fatalf("after a minute: %v", err)
	}
	h.at(2*engine.NonceLife + 2)
	h.sendAs(bearing(second))
	if seen, known := h.Sighting(second); seen != nil || known {
		t.Error("it was seen after its minute")
	}
}

// Of many requests that bear one nonce at once, one is seen.
func TestWatchAtOnce(t *testing.T) {
	h := build(t, "")
	nonce, err := h.Watch()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { h.sendAs(bearing(nonce)) })
	}
	all.Wait()
	if seen, _ := h.Sighting(nonce); seen == nil {
		t.Error("none was seen")
	}
}
