package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// reload presses the button, and gives a reason.
func (b *browser) reload(reason string) {
	b.t.Helper()
	b.run(chromedp.Click(css("[data-panel=config] button")))
	b.await(`document.getElementById("sure").open`)
	b.run(chromedp.SendKeys(css("#sure-reason"), reason), chromedp.Click(css("#sure-yes")))
}

// A reload says what it did. One that is refused says what is wrong, each with its place, where it was asked for and
// afterwards; what was in force stays.
func TestReloadSaysWhatItDid(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.bodies["POST reload"] = `{"changed":["rules[0].limits"],"needs_restart":["listen"],"config_hash":"1"}`
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.reload("search on trial")
	b.await(`document.getElementById("said").textContent === "Reloaded. Changed: rules[0].limits. At the next start: listen."`)
	s.set(func(s *standIn) {
		s.bodies["POST reload"] = `{"changed":[],"needs_restart":[],"config_hash":"1"}`
	})
	b.reload("again")
	b.await(`document.getElementById("said").textContent === "Reloaded. Nothing has changed."`)

	b.expect("422")
	s.set(func(s *standIn) {
		s.bodies["POST reload"] = `422 {"status":422,"code":"refused","detail":"the configuration was refused, the old one stays in force","errors":["weir.yaml:1:1: limitz: unknown key","weir.yaml:9:2: rate: want a unit"]}`
		s.bodies["status"] = strings.Replace(s.recorded("status"), `"refused": null`, `"refused": {"time": "2026-11-30T05:00:00Z", "errors": ["weir.yaml:1:1: limitz: unknown key", "weir.yaml:9:2: rate: want a unit"]}`, 1)
	})
	b.reload("broken")
	b.await(`document.getElementById("sure-fault").innerText.split("\n").length === 3`)
	if got := b.text("#sure-fault"); !strings.Contains(got, "weir.yaml:9:2: rate: want a unit") || !strings.Contains(got, "stays in force") {
		t.Errorf("the refusal says %q", got)
	}
	b.run(chromedp.Click(css("#sure-no")))
	b.await(`document.querySelectorAll("[data-panel=config] .alarm li").length === 2`)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.changes, " "); got != "POST reload? POST reload? POST reload?" {
		t.Errorf("changes: %s", got)
	}
}

// The audit log is there for everybody who may look: who, what, why, and what became of it.
func TestAuditLogIsShown(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, narrow, high)
	b.await(live)
	got := b.text("[data-panel=audit]")
	for _, want := range []string{"client.reset", "198.51.100.24/32", "support call, their shop was down", "SIGHUP", "refused", "want a unit, as in 60/1s", "41bb0e3c9a7f → 9f31c07a55d2"} {
		if !strings.Contains(got, want) {
			t.Errorf("the audit log does not say %q:\n%s", want, got)
		}
	}
	b.expect("500")
	s.set(func(s *standIn) { s.bodies["audit"] = "500!audit log: disk full" })
	b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("changes").scrollIntoView()`))
	b.await(`document.querySelector("[data-panel=audit] .broken")?.innerText.includes("disk full")`)
	s.set(func(s *standIn) { delete(s.bodies, "audit") })
	b.run(chromedp.Click(css("[data-panel=audit] button")))
	b.await(`document.querySelector("[data-panel=audit] table")`)
}

// Why the breaker opened stands beside when.
func TestBreakerSaysWhy(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	if got := b.text("[data-panel=store]"); !strings.Contains(got, "connection refused") || !strings.Contains(got, "no answer in time") {
		t.Errorf("the breaker's history: %q", got)
	}
}
