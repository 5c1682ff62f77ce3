package browser_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed testdata/axe.min.js
var axe string

// TestAccess has axe-core judge the page in both themes and widths and in every state, by WCAG 2.2 level AA and
// its best practices.
func TestAccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scheme string
		width  int64
	}{{"light", wide}, {"dark", narrow}} {
		t.Run(fmt.Sprint(c.scheme, c.width), func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t)
			b := open(t, s.URL, c.width, high)
			b.expect("Failed to load resource")
			b.prefer(c.scheme)
			b.await(live)
			b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
			b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#explain-form button").click()`))
			b.await(`document.querySelector("#explain-result .answer") && document.querySelector("#flow-table tr")`)
			b.check("live")
			b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-panel=talkers] .name").click()`))
			b.await(`document.querySelector("#client .limit")`)
			b.check("client")
			b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#client .actions button").click()`))
			b.check("sure")
			b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("dialog").forEach((d) => d.close())`))
			s.set(func(s *standIn) { s.down = true })
			b.await(`document.body.dataset.state === "stale"`)
			b.check("stale")
			s.set(func(s *standIn) { s.down, s.admin = false, "x" })
			b.await(`!document.getElementById("gate").hidden`)
			b.check("gate")
			b.run(chromedp.SendKeys(css("#token"), "x"+kb.Enter))
			b.await(live + ` && !document.getElementById("leave").hidden`)
			b.check("with a token")
		})
	}
}

// check has axe-core judge what is on the page now.
func (b *browser) check(state string) {
	b.t.Helper()
	if over := value[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		b.t.Errorf("%s: the page is %d pixels wider than its window", state, over)
	}
	b.run(chromedp.Evaluate[chromedp.Void](axe))
	type violation struct {
		ID, Help string
		Nodes    []struct {
			Target         []any
			FailureSummary string
		}
	}
	result := value[string](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise)
	var found []violation
	if err := json.Unmarshal([]byte(result), &found); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range found {
		for _, n := range v.Nodes {
			b.t.Errorf("%s: %s (%s): %v: %s", state, v.ID, v.Help, n.Target, strings.ReplaceAll(n.FailureSummary, "\n", " "))
		}
	}
}

// TestKeyboardAlone does what an operator does without a mouse.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.run(chromedp.KeyEvent(kb.Tab))
	b.await(`document.activeElement.className === "skip"`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.await(`document.activeElement.id === "main"`)

	// Every stop on the way has a name and a visible focus; the way ends.
	reset := false
	for range 120 {
		b.run(chromedp.KeyEvent(kb.Tab))
		stop := value[struct {
			ID, Name string
			Seen     bool
		}](b, `(() => { const e = document.activeElement, c = getComputedStyle(e), n = e.nextElementSibling, s = n ? getComputedStyle(n) : c;
			return {ID: e.id, Name: e.getAttribute("aria-label") ?? e.labels?.[0]?.textContent ?? e.textContent, Seen: c.outlineStyle !== "none" || s.outlineStyle !== "none"}; })()`)
		if strings.TrimSpace(stop.Name) == "" || !stop.Seen {
			t.Errorf("a stop without a name or a visible focus: %+v", stop)
		}
		if stop.Name == "Reset 203.0.113.7/32" {
			reset = true
			b.run(chromedp.KeyEvent(kb.Enter))
			b.await(`document.activeElement.id === "sure-reason"`)
			b.run(chromedp.KeyEvent("flood"), chromedp.KeyEvent(kb.Enter))
			b.await(`document.getElementById("said").textContent.startsWith("Reset 203.0.113.7/32")`)
			b.await(`document.activeElement.getAttribute("aria-label") === "Reset 203.0.113.7/32"`)
		}
		if stop.ID == "x-url" {
			b.run(chromedp.KeyEvent(kb.Enter))
			b.await(`document.querySelector("#explain-result .answer")`)
			break
		}
	}
	if !reset || !value[bool](b, `Boolean(document.querySelector("#explain-result .answer"))`) {
		t.Errorf("reset reached: %v; the explanation: %q", reset, b.text("#explain-result"))
	}
}

// Updates leave focus, selection and what is typed alone.
func TestUpdatesDoNotDisturb(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector('[aria-label="Reset 198.51.100.24/32"]').focus()`))
	s.set(func(s *standIn) {
		s.bodies["top"] = `{"by":"client","window":"1m","step":2,"requests":100,"refused":0,"entries":[
			{"rank":1,"key":"198.51.100.24/32","source":"direct","requests":90,"error":0,"refused":0,"share":0.9,"spark":[1,2,3]},
			{"rank":2,"key":"192.0.2.99/32","source":"direct","requests":10,"error":0,"refused":0,"share":0.1,"spark":[1,2,3]}]}`
	})
	b.await(`document.querySelectorAll("[data-panel=talkers] tbody tr").length === 2`)
	if got := value[string](b, `document.activeElement.getAttribute("aria-label") ?? ""`); got != "Reset 198.51.100.24/32" {
		t.Errorf("after an update the focus is at %q", got)
	}
	if got := value[string](b, `document.getElementById("said").textContent`); got != "" {
		t.Errorf("a tick was said aloud: %q", got)
	}
}

// What an operator must hear of is said once, and marked on the rail.
func TestWhatMattersIsSaid(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	before := value[string](b, `document.querySelector('.rail a[href="#store"]').textContent`)
	s.set(func(s *standIn) {
		s.bodies["status"] = strings.Replace(s.recorded("status"), `"breaker_open": false`, `"breaker_open": true`, 1)
	})
	b.await(`document.getElementById("said").textContent === "The store does not answer any more." && document.querySelector("[data-panel=store] .alarm")`)
	if got := value[string](b, `document.querySelector('.rail a[href="#store"]').textContent`); got != before+"! to look at" {
		t.Errorf("the rail reads %q", got)
	}
	s.set(func(s *standIn) {
		s.bodies["status"] = strings.Replace(s.recorded("status"), `"firewall": []`,
			`"firewall": [{"code":"waf.panic","since":"2026-11-30T00:00:00Z","text":"3 requests: they passed","edit":""}]`, 1)
	})
	b.await(`document.getElementById("said").textContent === "Firewall: waf.panic." && document.getElementById("firewall-faults").innerText.includes("3 requests: they passed")`)
	s.set(func(s *standIn) {
		delete(s.bodies, "status")
		s.bodies["diagnosis"] = strings.Replace(s.recorded("diagnosis"), "chain.short", "one_client", 1)
	})
	b.await(`document.querySelector('.rail a[href="#store"]').textContent === ` + quote(before))
	b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("chain").scrollIntoView()`))
	b.await(`document.getElementById("said").textContent === "Client chain: one_client."`)
}
