package journal

import (
	"io"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// Who was banned is told as log.addresses says, at a rate of its own.
func TestPenalized(t *testing.T) {
	var book logbook
	now := time.Unix(1_700_000_000, 0).UTC()
	j := New(Options{Log: book.logger(), Now: func() time.Time { return now }})
	n := netip.MustParsePrefix("203.0.113.7/32")
	j.Penalized(&weir.Client{Prefix: n, Addr: n.Addr()}, "20 denials in 1m per ip", now.Add(time.Hour))
	j.Penalized(&weir.Client{APIKey: "k1"}, "1 block in 1m per key", now.Add(time.Hour))
	for range 20 {
		j.Penalized(&weir.Client{APIKey: "k2"}, "1 block in 1m per key", now)
	}
	now = now.Add(time.Second)
	j.Penalized(&weir.Client{APIKey: "k3"}, "1 block in 1m per key", now)
	lines := book.lines(t)
	want := []map[string]any{
		{"level": "INFO", "msg": "banned by a penalty", "client": "203.0.113.0/24", "penalty": "20 denials in 1m per ip", "until": "2023-11-14T23:13:20Z"},
		{"level": "INFO", "msg": "banned by a penalty", "key": "k1", "penalty": "1 block in 1m per key", "until": "2023-11-14T23:13:20Z"},
		{"level": "INFO", "msg": "banned by a penalty", "key": "k3", "penalty": "1 block in 1m per key", "until": "2023-11-14T22:13:21Z", "suppressed": 12.},
	}
	if len(lines) != sentencesPerSecond+1 {
		t.Fatalf("%d lines, want %d and one of the next second", len(lines), sentencesPerSecond)
	}
	if diff := cmp.Diff(want, append(lines[:2:2], lines[sentencesPerSecond])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// How many bans there are, and which penalties made some, can be scraped, from the first moment.
func TestBanMetrics(t *testing.T) {
	j := New(Options{Gauges: Gauges{
		Bans: func() int { return 7 }, PassedOver: func() uint64 { return 3 },
		Penalties: func() map[string]uint64 {
			return map[string]uint64{"20 denials in 1m per ip": 2, "1 block in 1m per key": 0}
		},
	}})
	w := httptest.NewRecorder()
	j.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(w.Body)
	for _, line := range []string{
		"weir_bans 7", `weir_penalties_total{penalty="20 denials in 1m per ip"} 2`, `weir_penalties_total{penalty="1 block in 1m per key"} 0`,
		"weir_penalty_offences_passed_over_total 3",
	} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
}
