package journal

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Connections that are refused before there is a request leave a count and a line, with the peer masked.
func TestRefusedConnectionsLeaveATrace(t *testing.T) {
	var book logbook
	j := New(Options{Log: book.logger(), RefusalsPerSecond: 10, Faults: []string{"bare_lf", "folded"}})
	j.RefusedConnection("bare_lf", netip.MustParseAddr("203.0.113.77"))
	j.RefusedConnection("bare_lf", netip.MustParseAddr("2001:db8:1:2::3"))
	j.RefusedConnection("strange", netip.Addr{})
	line := func(peer, fault string) map[string]any {
		return map[string]any{"level": "INFO", "msg": "refused connection", "peer": peer, "fault": fault}
	}
	want := []map[string]any{line("203.0.113.0/24", "bare_lf"), line("2001:db8:1::/48", "bare_lf"), line("unix", "strange")}
	if diff := cmp.Diff(want, book.lines(t)); diff != "" {
		t.Errorf("log lines (-want +got):\n%s", diff)
	}
	series := map[string]float64{
		`weir_refused_connections_total{fault="bare_lf"}`: 2,
		`weir_refused_connections_total{fault="folded"}`:  0,
		`weir_refused_connections_total{fault="other"}`:   1,
	}
	if diff := cmp.Diff(series, withPrefix(scrape(t, j), "weir_refused_")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// A flood of them has as many lines as a flood of refusals, whatever it is called, and one series.
func TestRefusedConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		j := New(Options{Log: book.logger(), RefusalsPerSecond: 2, Faults: []string{"bare_lf"}})
		for i := range 100 {
			j.RefusedConnection(fmt.Sprint("strange", i), netip.MustParseAddr("203.0.113.77"))
		}
		if got := len(book.lines(t)); got != 2 {
			t.Errorf("%d lines, want 2", got)
		}
		time.Sleep(time.Second)
		j.RefusedConnection("bare_lf", netip.MustParseAddr("203.0.113.77"))
		if lines := book.lines(t); len(lines) != 1 || lines[0]["suppressed"] != 98. {
			t.Errorf("the next second: %v, want one line with 98 suppressed", lines)
		}
		if got := withPrefix(scrape(t, j), "weir_refused_"); len(got) != 2 {
			t.Errorf("%d series, want 2: %v", len(got), got)
		}
	})
}
