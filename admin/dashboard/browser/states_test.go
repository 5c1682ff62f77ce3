package browser_test

import (
	"net"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.admin, s.read = "right", "only-reads"
	b := open(t, s.URL, wide, high)
	b.expect("401")
	b.await(`!document.getElementById("gate").hidden && document.getElementById("page").hidden && document.activeElement.id === "token"`)

	b.run(chromedp.SendKeys(css("#token"), "wrong"+kb.Enter))
	b.await(`document.getElementById("gate-error").textContent === "Weir does not know this token."`)
	if value[bool](b, `sessionStorage.length > 0 || localStorage.length > 0`) {
		t.Error("a wrong token is kept")
	}

	b.run(chromedp.SendKeys(css("#token"), "only-reads"+kb.Enter))
	b.await(live)
	if value[bool](b, `Boolean(document.querySelector('[aria-label^="Reset "]'))`) {
		t.Error("a token that only reads is offered a change")
	}
	if got := b.text("#changes"); strings.Contains(got, "Reload the configuration") || !strings.Contains(got, "support call") {
		t.Errorf("with a token that only reads, the changes are %q", got)
	}
	if got := b.text("#link"); got != "Live, read only" {
		t.Errorf("the state reads %q", got)
	}

	b.run(chromedp.Click(css("#leave")))
	b.await(`!document.getElementById("gate").hidden && sessionStorage.length === 0`)
	b.run(chromedp.SendKeys(css("#token"), "right"+kb.Enter))
	b.await(live + ` && document.querySelector('[aria-label^="Reset "]')`)
	if value[bool](b, `document.cookie !== "" || Object.values(localStorage).includes("right") || sessionStorage.getItem("weir-token") !== "right"`) {
		t.Error("the token is kept elsewhere than in this tab")
	}
	b.run(chromedp.Reload())
	b.await(live) // the tab still has it

	s.set(func(s *standIn) { s.admin = "another" })
	b.await(`!document.getElementById("gate").hidden && document.getElementById("gate-error").textContent === "Weir does not know this token."`)
	if value[bool](b, `document.body.textContent.includes("203.0.113.7")`) {
		t.Error("a page without a token still holds what it showed")
	}
}

// What was shown stays when Weir goes, marked as old, until it comes back.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.expect("Failed to load resource")
	s.set(func(s *standIn) { s.down = true })
	b.await(`document.body.dataset.state === "stale" && !document.getElementById("banner").hidden`)
	if got := b.text("#banner"); !strings.Contains(got, "cannot be reached. What you see is from ") {
		t.Errorf("the banner says %q", got)
	}
	if got := b.text("[data-panel=talkers]"); !strings.Contains(got, "203.0.113.7/32") {
		t.Errorf("what was shown is gone: %q", got)
	}
	s.set(func(s *standIn) { s.down = false })
	b.await(live + ` && document.getElementById("banner").hidden && document.getElementById("said").textContent === "Weir answers again."`)
}

// A page that opens while Weir is away waits for it.
func TestServerAwayAtFirst(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.down = true
	b := open(t, s.URL, narrow, high)
	b.expect("Failed to load resource")
	b.await(`document.body.dataset.state === "stale" && document.querySelectorAll(".waiting").length > 4`)
	s.set(func(s *standIn) { s.down = false })
	b.await(live)
}

// One part that fails leaves the others alone, and says what went wrong.
func TestOnePartFails(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.bodies["rules"] = "500!disk on fire"
	b := open(t, s.URL, wide, high)
	b.expect("500")
	b.await(live)
	if got := b.text("[data-panel=rules]"); !strings.Contains(got, "could not be read") || !strings.Contains(got, "disk on fire") {
		t.Errorf("rules: %q", got)
	}
	s.set(func(s *standIn) { delete(s.bodies, "rules") })
	b.run(chromedp.Click(css("[data-panel=rules] button")))
	b.await(`document.querySelector("[data-panel=rules] .limit")`)
}

// A Weir that has seen nothing yet has words for it.
func TestEmpty(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.bodies = emptyBodies()
	b := open(t, s.URL, wide, high)
	b.await(live)
	for part, want := range map[string]string{
		"talkers": "Nobody has asked for anything yet", "rules": "No rules", "shadow": "No limit is on trial",
		"decisions": "Nothing has been refused lately", "blocked": "Nothing has been blocked", "chain": "Nothing to judge by yet", "store": "has no breaker",
		"audit": "Nothing has been changed yet", "config": "In force since",
	} {
		if got := b.text("[data-panel=" + part + "]"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", part, got, want)
		}
	}
}

func emptyBodies() map[string]string {
	return map[string]string{
		"top":       `{"by":"client","window":"1m","step":2,"requests":0,"refused":0,"entries":[]}`,
		"rules":     `{"requests":0,"refused":0,"rules":[]}`,
		"shadow":    `{"limits":[],"clients":[]}`,
		"decisions": `{"decisions":[]}`,
		"blocked":   `{"blocked":[],"insights":[],"proposals":[]}`,
		"diagnosis": `{"strategy":"","picture":"the client is the peer","traps":[],"findings":[],"entries":[0,0,0,0,0,0,0,0],"sources":[]}`,
		"audit":     `{"lines":[]}`,
		"status": `{"version":"0.5.0","started":"2026-11-30T00:00:00Z","config_hash":"9f31c07a55d2","config":{"file":"defaults","since":"2026-11-30T00:00:00Z","needs_restart":[],"refused":null},"not_ready":"","fronts":[],"requests":0,"refused":0,"in_flight":0,"held":0,
			"store":{"backend":"memory","breaker_open":false,"fallbacks":0,"memory_keys":0,"memory_evictions":0,"findings":[],"history":[]},"firewall":[]}`,
	}
}

func TestLightAndDark(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	isDark := `getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] < 100`
	b.prefer("dark")
	b.await(isDark)
	b.prefer("light")
	b.await("!(" + isDark + ")")
	b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector('input[name="theme"][value="dark"]').click()`))
	b.await(isDark)
	b.run(chromedp.Reload())
	b.await(isDark) // it is remembered
	b.prefer("light")
	b.await(live + " && " + isDark)
}

// prefer makes the browser prefer a colour scheme, and less motion.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

func TestLessMotion(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.prefer("light")
	b.await(live)
	moving := `[...document.querySelectorAll("*")].filter((e) => { const c = getComputedStyle(e); return c.animationName !== "none" || c.transitionDuration !== "0s" || c.scrollBehavior === "smooth"; }).length`
	if got := value[int](b, moving); got != 0 {
		t.Errorf("%d elements move though less motion is preferred", got)
	}
}

// The page has no address but its own to ask, whatever it is told.
func TestAsksNobodyElse(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	b.await(live)
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	b.expect("Content Security Policy")
	b.expect("Refused to connect")
	b.expect("asks elsewhere")
	got := value[string](b, `fetch("http://`+elsewhere.Addr().String()+`/").then(() => "sent", () => "blocked")`, chromedp.EvalAwaitPromise)
	if got != "blocked" {
		t.Errorf("a request to elsewhere is %s", got)
	}
}
