package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weirgate/weir/internal/proctest"
)

const (
	wide, high = 1440, 900
	narrow     = 360
)

// live is true once every part of the page shows what it was told.
const live = `document.body.dataset.state === "live" && document.querySelectorAll(".waiting").length === 0 && document.querySelector(".uplot canvas")`

func css(selector string) chromedp.CSS { return chromedp.CSS(selector) }

func TestNumbersRise(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	if got := b.text("#figures"); !strings.Contains(got, "Requests") || !strings.Contains(got, "/s") {
		t.Errorf("figures: %q", got)
	}
	if got := value[string](b, `document.getElementById("plot-rate").getAttribute("aria-label")`); !strings.HasPrefix(got, "Plot of requests per second") {
		t.Errorf("the plot is called %q", got)
	}
	first := s.asks("series")
	if err := proctest.Await(patience, func() error {
		if n := s.asks("series"); n < first+2 {
			return fmt.Errorf("asked %d times for the series, at first %d times", n, first)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	figure := `document.querySelector("#figures dd").textContent`
	low := value[string](b, figure)
	s.set(func(s *standIn) { s.more = 400 })
	b.await(`parseInt(` + figure + `) > 500`)
	if low == value[string](b, figure) {
		t.Errorf("the figure stays at %s", low)
	}
	b.run(chromedp.Click(css("#flow summary")))
	b.await(`document.querySelectorAll("#flow-table tbody tr").length >= 30`)
}

func TestTopTalkersRank(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	first := `document.querySelector("[data-panel=talkers] tbody tr").innerText`
	if got := value[string](b, first); !strings.Contains(got, "203.0.113.7/32") || !strings.Contains(got, "named by a proxy") || !strings.Contains(got, "78 %") {
		t.Errorf("first row: %q", got)
	}
	s.set(func(s *standIn) {
		s.bodies["top"] = `{"by":"client","window":"1m","step":2,"requests":100,"refused":0,"entries":[
			{"rank":1,"key":"192.0.2.1/32","source":"direct","requests":90,"error":0,"refused":0,"share":0.9,"spark":[1,2,3]},
			{"rank":2,"key":"203.0.113.7/32","source":"forwarded","requests":10,"error":0,"refused":0,"share":0.1,"spark":[3,2,1]}]}`
	})
	b.await(first + `.includes("192.0.2.1/32")`)
	b.run(chromedp.SendKeys(css("#filter"), "203.0"))
	b.await(`document.querySelectorAll("[data-panel=talkers] tbody tr").length === 1`)
	b.run(chromedp.Click(css("[data-panel=talkers] th[aria-sort] + th + th button")))
	b.await(`document.querySelector("[data-panel=talkers] th:nth-child(5)").getAttribute("aria-sort") === "descending"`)
}

func TestExplainShowsEveryHop(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.run(chromedp.SetValue(css("#x-url"), "/api/search"), chromedp.Click(css("#explain-form button")))
	b.await(`document.querySelector("#explain-result .answer")`)
	if got := value[int](b, `document.querySelectorAll("#explain-result .hops li").length`); got != 3 {
		t.Errorf("%d hops, want 3", got)
	}
	got := b.text("#explain-result")
	for _, want := range []string{"429 reject: over limit", "10.0.0.1", "trusted, named by nginx", "203.0.113.7", "the client", "won over default: its path is longer", "search_trial", "0 of 20"} {
		if !strings.Contains(got, want) {
			t.Errorf("the explanation does not say %q:\n%s", want, got)
		}
	}
	b.expect("Failed to load resource") // the browser notes the refused question
	s.set(func(s *standIn) { s.bodies["explain"] = "400!url: want http://HOST/PATH" })
	b.run(chromedp.Click(css("#explain-form button")))
	b.await(`document.querySelector("#explain-result .broken")?.innerText.includes("want http://HOST/PATH")`)
}

func TestResetAsksFirst(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.run(chromedp.Click(css(`[aria-label="Reset 203.0.113.7/32"]`)))
	b.await(`document.getElementById("sure").open`)
	b.run(chromedp.Click(css("#sure-no")))
	b.await(`!document.getElementById("sure").open`)
	b.run(chromedp.Click(css(`[aria-label="Reset 203.0.113.7/32"]`)), chromedp.SendKeys(css("#sure-reason"), "a drill & test"), chromedp.Click(css("#sure-yes")))
	b.await(`document.getElementById("said").textContent === "Reset 203.0.113.7/32: 3 counters."`)
	s.mu.Lock()
	defer s.mu.Unlock()
	want := "DELETE clients/203.0.113.7%2F32?reason=a%20drill%20%26%20test"
	if len(s.changes) != 1 || s.changes[0] != want {
		t.Errorf("changes: %q, want %q", s.changes, want)
	}
}

func TestAClientIsShownWhole(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.run(chromedp.Click(css(`[aria-label="203.0.113.7/32: show more"]`)))
	b.await(`document.getElementById("client").open && document.querySelector("#client .limit")`)
	got := b.text("#client")
	for _, want := range []string{"Last 24h", "0 of 20 left", "/api/search?q=pumps"} {
		if !strings.Contains(got, want) {
			t.Errorf("the client's dialog does not say %q:\n%s", want, got)
		}
	}
	b.run(chromedp.KeyEvent(kb.Escape))
	b.await(`!document.getElementById("client").open && document.activeElement.classList.contains("name")`)
}

// Bans and the firewall are shown if the API says that there are any.
func TestOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.bodies["session"] = `{"token":"admin","writes":true,"version":"0.5.0","bans":false,"blocked":false,"read_only":""}`
	b := open(t, s.URL, wide, high)
	b.await(live)
	if got := b.text("#blocked"); !strings.Contains(got, "Nothing is inspected") {
		t.Errorf("blocked: %q", got)
	}
	if value[bool](b, `Boolean(document.querySelector('[aria-label^="Ban "]')) || !document.getElementById("bans").hidden`) {
		t.Error("bans are shown, and there are none")
	}
	if s.asks("bans")+s.asks("blocked") > 0 {
		t.Error("the page asked for what there is not")
	}

	s.set(func(s *standIn) {
		s.bodies["session"] = `{"token":"admin","writes":true,"version":"0.5.0","bans":true,"blocked":true,"read_only":""}`
		s.bodies["bans"] = `{"total":1,"bans":[{"subject":"198.51.100.9/32","reason":"flood","author":"admin","since":"2026-11-30T00:00:00Z","until":"2126-11-30T00:10:00Z"}]}`
	})
	b.run(chromedp.Reload())
	b.await(live)
	b.run(chromedp.Click(css(`[aria-label="Lift the ban of 198.51.100.9/32"]`)), chromedp.Click(css("#sure-yes")))
	b.await(`document.getElementById("said").textContent === "The ban of 198.51.100.9/32 is lifted."`)
	b.run(chromedp.Click(css(`[aria-label="Ban 203.0.113.7/32"]`)), chromedp.Click(css("#sure-yes")))
	b.await(`document.getElementById("said").textContent === "Banned 203.0.113.7/32 for 10m."`)
	b.run(chromedp.Click(css("#blocked summary")))
	b.await(`document.querySelector("#blocked pre").innerText.includes("exclude:")`)
}
