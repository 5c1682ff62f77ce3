package browser_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// What a stranger chooses is shown as it is written, and never runs.
func TestMarkupIsText(t *testing.T) {
	t.Parallel()
	const evil = `"><img src=x onerror="window.ran=1"><script>window.ran=1</script><a href="javascript:window.ran=1">x</a>'&quot;` + "\u202e\x00"
	s := newStandIn(t)
	for _, name := range []string{"top", "rules", "shadow", "decisions", "blocked", "diagnosis", "status", "explain", "clients"} {
		s.bodies[name] = poison(t, name, evil)
	}
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.run(chromedp.Click(css("#explain-form button")))
	b.await(`document.querySelector("#explain-result .answer")`)
	b.run(chromedp.Click(css("[data-panel=talkers] .name")))
	b.await(`document.getElementById("client").open && document.querySelector("#client .limit")`)
	if value[bool](b, `"ran" in window`) {
		t.Error("a stranger's markup ran")
	}
	stray := `document.querySelectorAll("main img, main script, main a[href], dialog img, dialog script, [onerror], [onclick]").length`
	if got := value[int](b, stray); got != 0 {
		t.Errorf("%d elements were made of a stranger's text", got)
	}
	for _, selector := range []string{"[data-panel=talkers] .name", "[data-panel=decisions] th .mono", "[data-panel=rules] strong", "#blocked .hit", "#chain pre", "#explain-result .hops .mono", "#client-title"} {
		if got := value[string](b, `document.querySelector(`+quote(selector)+`)?.textContent ?? "nothing"`); !strings.Contains(got, `<img src=x onerror="window.ran=1">`) {
			t.Errorf("%s reads %q", selector, got)
		}
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// poison puts text in the place of every string of a recorded body that is not a time.
func poison(t *testing.T, name, text string) string {
	t.Helper()
	data, err := recorded.ReadFile("testdata/api/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return poisoned(t, string(data), text)
}

// poisoned puts text in the place of every string of a body.
func poisoned(t *testing.T, body, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(poisonValue(v, text))
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func poisonValue(v any, text string) any {
	switch v := v.(type) {
	case string:
		return text
	case []any:
		for i := range v {
			v[i] = poisonValue(v[i], text)
		}
	case map[string]any:
		for name := range v {
			if name != "by" && name != "window" { // the page's own words, which it asked with
				v[name] = poisonValue(v[name], text)
			}
		}
	}
	return v
}
