package journal

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
)

// behindUnknownProxy records n requests of many people that all come through a proxy which the
// configuration does not know: the incident "one bucket for the whole site".
func behindUnknownProxy(j *Journal, n int) {
	for i := range n {
		d := from(passed(search), "10.0.0.1")
		d.At = time.Now()
		d.Request.Peer = netip.MustParseAddr("10.0.0.1")
		d.Request.Header.Set("User-Agent", fmt.Sprint("browser ", i%20))
		d.Client.Chain.Codes = weir.HeaderUnexpected
		j.Record(d, ok)
	}
}

// healthy records n requests of many people, each from an address of his own.
func healthy(j *Journal, n int) {
	for i := range n {
		d := from(passed(search), fmt.Sprintf("203.0.113.%d", i%250))
		d.At = time.Now()
		d.Request.Header.Set("User-Agent", fmt.Sprint("browser ", i%20))
		j.Record(d, ok)
	}
}

// codes returns the codes of log lines, each with what the line says of it.
func codes(lines []map[string]any) []string {
	var list []string
	for _, line := range lines {
		list = append(list, fmt.Sprint(line["level"], " ", line["msg"], ": ", line["code"]))
	}
	return list
}

// The log has one line when a finding appears and one when it is gone, however often it is looked at.
func TestDiagnosisIsLoggedOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		j := New(Options{Log: book.logger()})
		ctx, stop := context.WithCancel(t.Context())
		go j.Run(ctx)
		defer synctest.Wait()
		defer stop()

		for range 3 * int(chain.Window/diagnoseEvery) {
			behindUnknownProxy(j, 40)
			time.Sleep(diagnoseEvery)
		}
		synctest.Wait()
		lines := book.lines(t)
		want := []string{"WARN client diagnosis: header.unexpected", "WARN client diagnosis: one_client"}
		if diff := cmp.Diff(want, codes(lines)); diff != "" {
			t.Fatalf("lines while it lasts (-want +got):\n%s", diff)
		}
		if lines[0]["text"] == "" || lines[0]["edit"] == "" {
			t.Errorf("line %v, want what is the matter and the edit to paste", lines[0])
		}

		for range 3 * int(chain.Window/diagnoseEvery) {
			healthy(j, 40)
			time.Sleep(diagnoseEvery)
		}
		synctest.Wait()
		want = []string{"INFO client diagnosis cleared: header.unexpected", "INFO client diagnosis cleared: one_client"}
		if diff := cmp.Diff(want, codes(book.lines(t))); diff != "" {
			t.Errorf("lines when it is mended (-want +got):\n%s", diff)
		}
	})
}

func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(Options{})
		behindUnknownProxy(j, chain.Enough-1)
		if diff := cmp.Diff([]Finding{}, j.Findings()); diff != "" {
			t.Errorf("findings before there is enough to say anything (-want +got):\n%s", diff)
		}
		behindUnknownProxy(j, 1)
		var got []string
		for _, f := range j.Findings() {
			if f.Text == "" || !f.Since.Equal(time.Now()) {
				t.Errorf("finding %+v, want a text, and since %v", f, time.Now())
			}
			got = append(got, f.Code)
		}
		if diff := cmp.Diff([]string{"header.unexpected", "one_client"}, got); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
	})
}

// A reload that changes how clients are found begins anew, and what was found is told to be gone.
func TestSetChainClearsFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		j := New(Options{Log: book.logger()})
		behindUnknownProxy(j, chain.Enough)
		j.diagnose()
		j.SetChain(chain.Config{Strategy: "trusted_proxies"})
		j.diagnose()
		j.diagnose()
		want := []string{
			"WARN client diagnosis: header.unexpected", "WARN client diagnosis: one_client",
			"INFO client diagnosis cleared: header.unexpected", "INFO client diagnosis cleared: one_client",
		}
		if diff := cmp.Diff(want, codes(book.lines(t))); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// Requests that pass untouched, with nobody looked for, say nothing of the proxies.
func TestDisabledRequestsAreNotDiagnosed(t *testing.T) {
	j := New(Options{Now: func() time.Time { return noon }})
	for i := range 2 * chain.Enough {
		d := passed(nil)
		d.Reason, d.Client = weir.Disabled, weir.Client{}
		d.Request.Header.Set("User-Agent", fmt.Sprint("browser ", i%20))
		j.Record(d, ok)
	}
	if diff := cmp.Diff([]Finding{}, j.Findings()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
