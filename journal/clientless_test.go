package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
)

// A front that is asked by descriptors looks for no client: none is shown, counted, logged or diagnosed.
func TestDecisionsWithoutAClient(t *testing.T) {
	book := new(logbook)
	j := New(Options{Now: func() time.Time { return noon }, Log: book.logger(), RefusalsPerSecond: 1})
	for i := range 2 * chain.Enough {
		d := refused(search, weir.Reject)
		d.Client, d.Request = weir.Client{}, weir.Request{Front: "rls"}
		d.Request.Path = fmt.Sprint(i)
		j.Record(d, weir.Outcome{HTTP: 429})
	}
	if diff := cmp.Diff([]Finding{}, j.Findings()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for name, n := range withPrefix(scrape(t, j), "weir_client_resolution_total", "weir_client_chain_entries_count") {
		if n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if e := j.Recent(1)[0]; e.Client != "" || e.Source != "" || e.Front != "rls" {
		t.Errorf("recent: %+v", e)
	}
	lines := book.lines(t)
	if len(lines) != 1 || lines[0]["client"] != nil || lines[0]["source"] != nil || lines[0]["front"] != "rls" {
		t.Errorf("log: %v", lines)
	}
}
