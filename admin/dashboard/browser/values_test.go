package browser_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// attacks are values by what they try.
var attacks = []struct{ name, value, shown string }{
	{"markup", `</pre></td></table><img src=x onerror="window.ran=1"><script>window.ran=1</script><svg onload=window.ran=1><iframe srcdoc="<script>parent.ran=1</script>">&lt;b&gt;`, `<img src=x onerror="window.ran=1">`},
	{"attributes", `" onmouseover="window.ran=1" onfocus="window.ran=1" autofocus style="position:fixed;inset:0" '"><base href="//evil.example/"><a href="javascript:window.ran=1">x</a><form action=//evil.example>`, `" onmouseover="window.ran=1"`},
	{"an address that runs", "javascript:window.ran=1//", "javascript:window.ran=1//"},
	{"names of the language", "__proto__", "__proto__"},
	{"more of them", "constructor", "constructor"},
	{"templates", "${window.ran=1}{{constructor.constructor('window.ran=1')()}}<%=1%>", "${window.ran=1}"},
	{"direction", "203.0.113.7\u202e7.311.0.302\u2066\u2069\u200f\u200b\u061c\ufeff\u3164\U000e0041/32", "203.0.113.7⟨U+202E⟩7.311.0.302⟨U+2066⟩⟨U+2069⟩⟨U+200F⟩⟨U+200B⟩⟨U+061C⟩⟨U+FEFF⟩⟨U+3164⟩⟨U+E0041⟩/32"},
	{"controls", "a\x00b\x1b[2Jc\u009b2Jd\re\x7ff\u0085g\u2028h\bi", "a⟨U+0000⟩b⟨U+001B⟩[2Jc⟨U+009B⟩2Jd⟨U+000D⟩e⟨U+007F⟩f⟨U+0085⟩g⟨U+2028⟩h⟨U+0008⟩i"},
	{"letters that turn", "אבג/32?דה=1", "אבג/32?דה=1"},
	{"length", strings.Repeat("W", 4000), strings.Repeat("W", 100)},
}

// displayed are places where the page shows a value of somebody's.
var displayed = []string{
	"[data-panel=talkers] .name", "[data-panel=decisions] th .mono", "[data-panel=decisions] .under", "[data-panel=rules] strong", "[data-panel=rules] .limit .mono", "[data-panel=shadow] strong",
	"[data-panel=chain] .picture", "[data-panel=chain] .findings p", "#chain pre", "[data-panel=blocked] .hit", "[data-panel=blocked] th .mono", "[data-panel=blocked] pre", "[data-panel=bans] th .mono", "[data-panel=bans] td.wide",
	"[data-panel=audit] th .mono", "[data-panel=audit] td.wide", "[data-panel=config] .alarm li", "[data-panel=config] .facts", "[data-panel=store] .alarm", "[data-panel=store] .findings", "[data-panel=store] td.wide",
	"#firewall-faults .findings p", "#about", "#explain-result .answer h3", "#explain-result .hops .mono", "#explain-result .notes", "#explain-result table .under",
}

// Whatever stands in whichever value that the page shows: it is read as it is written, nothing runs, no element is made
// of it, what cannot be seen is shown by its number, and the page is no wider than its window.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, narrow, high)
	for _, a := range attacks {
		s.set(func(s *standIn) {
			for name, body := range everything(t, s) {
				s.bodies[name] = poisoned(t, body, a.value)
			}
		})
		b.run(chromedp.Navigate(s.URL))
		b.endures(a.name, a.shown)
		b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-panel=talkers] .name").click()`))
		b.await(`document.querySelector("#client .limit")`)
		b.shows(a.name, "#client-title", a.shown)
		b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#client .harm").click()`))
		b.shows(a.name, "#sure-title", a.shown)
		b.harmless(a.name + ", asked")
		b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("dialog").forEach((d) => d.close()); document.querySelector("[data-panel=bans] tbody button").click()`))
		b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("sure-yes").click()`))
		b.await(`document.getElementById("said").textContent.startsWith("The ban of ")`)
		b.shows(a.name, "#said", a.shown)
		b.shows(a.name, "#note", a.shown)
		b.harmless(a.name + ", done")
	}
	b.run(chromedp.EmulateViewport(wide, high), chromedp.Navigate(s.URL)) // with what is longest
	b.endures("wide", attacks[len(attacks)-1].shown)
}

// endures looks at everything that the page shows.
func (b *browser) endures(attack, shown string) {
	b.t.Helper()
	b.await(live + ` && document.querySelector("[data-panel=bans] tbody tr")`)
	b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
	b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#explain-form button").click()`))
	b.await(`document.querySelector("#explain-result .answer") && document.querySelector("#flow-table tr")`)
	for _, selector := range displayed {
		if got := value[string](b, `[...document.querySelectorAll(`+quote(selector)+`)].map((e) => e.textContent).join("\n")`); !strings.Contains(got, shown) {
			b.t.Errorf("%s: %s reads %.300q", attack, selector, got)
		}
	}
	b.harmless(attack)
}

// What went wrong is said in words of others, too.
func TestHostileErrors(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, narrow, high)
	b.expect("Failed to load resource")
	for _, a := range attacks {
		s.set(func(s *standIn) {
			for _, name := range []string{"rules", "top", "explain"} {
				s.bodies[name] = "503!" + a.value
			}
		})
		b.run(chromedp.Navigate(s.URL))
		b.await(live)
		b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#explain-form button").click()`))
		b.await(`document.querySelector("#explain-result .broken")`)
		for _, selector := range []string{"[data-panel=talkers] .broken", "[data-panel=rules] .broken", "#explain-result .broken", "#said"} {
			b.shows(a.name, selector, a.shown)
		}
		b.harmless(a.name)
		s.set(func(s *standIn) { s.bodies["series"] = "" })
	}
}

// shows wants a value in the first element of a selector.
func (b *browser) shows(attack, selector, want string) {
	b.t.Helper()
	if got := value[string](b, `document.querySelector(`+quote(selector)+`)?.textContent ?? "nothing"`); !strings.Contains(got, want) {
		b.t.Errorf("%s: %s reads %.300q, want %.100q in it", attack, selector, got, want)
	}
}

// harmless fails if anything on the page was made of a value, and for what is not to be seen.
func (b *browser) harmless(attack string) {
	b.t.Helper()
	for what, expression := range map[string]string{
		"ran":                    `window.ran ?? 0`,
		"elements were made":     `document.querySelectorAll("main img, main script, iframe, object, embed, base, main link, main style, main a[href]:not([href^='#']), dialog img, dialog script, dialog a, [srcdoc], [autofocus], body form[action]").length`,
		"handlers were made":     `[...document.querySelectorAll("*")].filter((e) => e.getAttributeNames().some((n) => n.startsWith("on"))).length`,
		"unseen characters":      `[document.body.textContent, ...[...document.querySelectorAll("body *")].flatMap((e) => e.getAttributeNames().map((n) => e.getAttribute(n)))].join("").match(/[^\n\t\P{C}]/gu)?.length ?? 0`,
		"pixels are too many":    `Math.max(0, document.documentElement.scrollWidth - innerWidth)`,
		"pixels in a dialog":     `Math.max(0, ...[...document.querySelectorAll("dialog[open]")].map((d) => d.scrollWidth - d.clientWidth))`,
		"values are not kept in": `[...document.querySelectorAll(".mono, .hit, pre")].filter((e) => getComputedStyle(e).unicodeBidi !== "isolate-override").length`,
	} {
		if got := value[int](b, expression); got != 0 {
			b.t.Errorf("%s: %s: %d", attack, what, got)
		}
	}
}

// everything are bodies in which every part of the page has something to show.
func everything(t *testing.T, s *standIn) map[string]string {
	all := map[string]string{
		"session": `{"token":"admin","writes":true,"version":"0.5.0","bans":true,"blocked":true,"read_only":""}`,
		"bans":    `{"total":1,"bans":[{"subject":"a","since":"2026-11-30T00:00:00Z","until":null,"reason":"b","author":"c"}]}`,
	}
	for _, name := range []string{"top", "rules", "shadow", "decisions", "blocked", "diagnosis", "explain", "clients", "audit"} {
		all[name] = s.recorded(name)
	}
	var status map[string]any
	if err := json.Unmarshal([]byte(s.recorded("status")), &status); err != nil {
		t.Fatal(err)
	}
	fault := []any{map[string]any{"code": "a", "since": "b", "text": "c", "edit": "d"}}
	status["not_ready"], status["firewall"] = "a", fault
	status["store"].(map[string]any)["findings"] = []any{"a"}
	c := status["config"].(map[string]any)
	c["needs_restart"], c["refused"] = []any{"a"}, map[string]any{"time": "a", "errors": []any{"b"}}
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	all["status"] = string(text)
	return all
}

// The token is in the tab's memory and one header field: in no address, in no field of the page, and in no storage that
// outlives the tab. Locked, nothing of the page knows it, nor what was shown; and the page is in nobody's frame.
func TestWhereTheTokenIs(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-mine"
	s := newStandIn(t)
	s.admin = token
	b := open(t, s.URL, wide, high)
	b.expect("Failed to load resource") // 401 at first
	b.await(`!document.getElementById("gate").hidden`)
	b.run(chromedp.SendKeys(css("#token"), token+"\r"))
	b.await(live)
	holds := `[document.documentElement.outerHTML, document.cookie, location.href, document.title, JSON.stringify(localStorage), JSON.stringify(history.state), ...[...document.querySelectorAll("input, textarea")].map((e) => e.value)].join().includes("` + token + `")`
	if value[bool](b, holds) {
		t.Error("the page holds the token where others read")
	}
	b.mu.Lock()
	for _, asked := range b.requests {
		if strings.Contains(asked, token) {
			t.Errorf("the token is in an address: %s", asked)
		}
	}
	b.mu.Unlock()
	b.run(chromedp.Click(css("#leave")))
	b.await(`!document.getElementById("gate").hidden && document.getElementById("page").hidden`)
	if value[bool](b, holds+` || JSON.stringify(sessionStorage).includes("`+token+`") || Boolean(document.querySelector("[data-panel=talkers] .name"))`) {
		t.Error("locked, the page knows the token still, or what it showed")
	}
}
