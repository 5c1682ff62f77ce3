package stickexport

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scrape returns the metrics, without their help and what differs from run to run.
func scrape(t *testing.T, e *Exporter) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var kept strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if line[0] != '#' && !strings.Contains(line, "_seconds") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// HAProxy is asked once per interval however often the exporter is, and a table that cannot be read is
// told of once.
func TestExporter(t *testing.T) {
	table := &rates{of: map[string]int{"a": 5, "b": 9, "c": 1}}
	s := speak(t, table.answer)
	var log bytes.Buffer
	e := NewExporter(reader(t, Options{Socket: s.addr, Table: "web", By: "http_req_rate", Top: 2}), 10*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	e.now = func() time.Time { return now }
	want := `haproxy_sticktable_top{data="http_req_rate",key="a",rank="2",table="web"} 5
haproxy_sticktable_top{data="http_req_rate",key="b",rank="1",table="web"} 9
haproxy_sticktable_top_size{table="web"} 100
haproxy_sticktable_top_up{table="web"} 1
haproxy_sticktable_top_used{table="web"} 3
`
	const down = `haproxy_sticktable_top_up{table="web"} 0` + "\n"
	for _, step := range []struct {
		after  time.Duration
		broken bool
		want   string
		asked  int
	}{
		{0, false, want, 1}, {0, false, want, 0}, {10*time.Second - 1, true, want, 0}, {1, true, down, 1}, {0, true, down, 0}, {10 * time.Second, true, down, 1}, {10 * time.Second, false, want, 1},
	} {
		now = now.Add(step.after)
		table.turn(step.broken)
		if diff := cmp.Diff(step.want, scrape(t, e)); diff != "" {
			t.Errorf("at %s (-want +got):\n%s", now, diff)
		}
		if got := s.commands(); len(got) != step.asked {
			t.Errorf("at %s HAProxy was asked %q, want %d", now, got, step.asked)
		}
	}
	if strings.Count(log.String(), "cannot be read") != 1 || strings.Count(log.String(), "can be read again") != 1 {
		t.Errorf("log:\n%s\nwant one line each", log.String())
	}
}

// Keys may be what clients send: as labels they are of bounded length and valid.
func TestLabels(t *testing.T) {
	s := speak(t, func(_ string, w io.Writer) {
		fmt.Fprintf(w, "# table: web, type: string, size:9, used:9\n0x1: key=%s use=0 exp=1 gpc0=2\n0x1: key=\xff\xfe use=0 exp=1 gpc0=1\n\n", strings.Repeat("k", 300))
	})
	e := NewExporter(reader(t, Options{Socket: s.addr, Table: "web", By: "gpc0"}), 0, slog.New(slog.DiscardHandler))
	got := scrape(t, e)
	if !strings.Contains(got, `key="`+strings.Repeat("k", maxLabel)+`…"`) || !strings.Contains(got, `key="?"`) {
		t.Errorf("%s", got)
	}
}
