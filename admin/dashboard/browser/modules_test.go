package browser_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// in runs an expression with a module of the page as m.
func in(b *browser, module, expression string) string {
	b.t.Helper()
	return value[string](b, `import("/dashboard/js/`+module+`").then((m) => JSON.stringify(`+expression+`))`, chromedp.EvalAwaitPromise)
}

func TestFormats(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	for expression, want := range map[string]string{
		`m.count(0)`: "0", `m.count(9999)`: "9,999", `m.count(10000)`: "10.0k", `m.count(999949)`: "1000k", `m.count(1e6)`: "1.0M", `m.count(2.5e9)`: "2.5G",
		`m.count(undefined)`: "–", `m.count(NaN)`: "–", `m.count("7")`: "–",
		`m.rate(0)`: "0", `m.rate(0.25)`: "0.3", `m.rate(9.96)`: "10.0", `m.rate(10.4)`: "10",
		`m.percent(0, 10)`: "0 %", `m.percent(10, 10)`: "100 %", `m.percent(1, 10000)`: "<0.1 %", `m.percent(99999, 100000)`: ">99.9 %",
		`m.percent(1, 20)`: "5.0 %", `m.percent(1, 2)`: "50 %", `m.percent(1, 0)`: "–", `m.percent(NaN, 1)`: "–",
		`m.duration(0)`: "0 ms", `m.duration(0.00004)`: "40 µs", `m.duration(0.0042)`: "4.2 ms", `m.duration(0.25)`: "250 ms", `m.duration(1)`: "1.0 s", `m.duration(59)`: "59 s",
		`m.duration(61)`: "1 min 1 s", `m.duration(3600)`: "1 h 0 min", `m.duration(90000)`: "1 d 1 h", `m.duration(null)`: "–",
		`m.time("no time")`: "–", `m.source("forwarded")`: "named by a proxy", `m.source("new_word")`: "new_word", `m.source(undefined)`: "–",
	} {
		var got string
		if err := json.Unmarshal([]byte(in(b, "format.js", expression)), &got); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", expression, got, want, err)
		}
	}
}

// A row that stays is the same element, wherever it goes; what is not described any more is gone.
func TestRenderKeepsElements(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	b := open(t, s.URL, wide, high)
	got := in(b, "dom.js", `(() => {
		const at = document.createElement("ul"), items = (...keys) => keys.map((k) => m.h("li", {key: k, title: k}, k, " ", m.h("b", null, k.length)));
		document.body.append(at);
		m.render(at, items("a", "b", "c"));
		const [a, b, c] = at.children;
		m.render(at, items("c", "x", "a"));
		const kept = [at.children[0] === c, at.children[2] === a, b.isConnected];
		m.render(at, m.h("li", {title: null, hidden: true, href: "https://elsewhere.example", class: false}, null, false, ["<i>", 0]));
		return [...kept, at.innerHTML];
	})()`)
	want := `[true,true,false,"<li hidden=\"\">&lt;i&gt;0</li>"]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
}
