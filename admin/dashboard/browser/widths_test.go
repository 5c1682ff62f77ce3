package browser_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// beyond lists the tables, their heads, buttons and tags that do not end within the card that they are in, and what holds
// text that does not end within it. Half a pixel is rounding; the heads of rows that are cards are only heard, and the
// table of the flow moves in a region of its own.
const beyond = `[...document.querySelectorAll("#main section")].flatMap((card) => {
	const edge = card.getBoundingClientRect(), box = (e) => e.getBoundingClientRect();
	const seen = (e) => e.checkVisibility() && !e.closest("#flow-table, .sr") && getComputedStyle(e.closest("thead") ?? e).clipPath === "none";
	const out = (e) => seen(e) && (box(e).right > edge.right + .5 || box(e).left < edge.left - .5);
	const cut = (e) => seen(e) && e.scrollWidth > e.clientWidth + 1;
	const name = (e) => card.id + ": " + e.tagName + " " + (e.getAttribute("aria-label") ?? e.caption?.textContent ?? e.textContent).slice(0, 40);
	return [...[...card.querySelectorAll("table, th, button, .tag")].filter(out), ...[...card.querySelectorAll("td, th, .body")].filter(cut)].map(name);
}).join("\n")`

// On a phone and on laptops nothing that a card holds ends under the card beside it: not with one talker whom much is
// known of, and not with many.
func TestTablesStayInTheirCards(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	s.set(func(s *standIn) {
		for name, body := range everything(t, s) {
			s.bodies[name] = body
		}
		s.bodies["bans"] = `{"total":1,"bans":[{"subject":"2001:db8:4a1c:77f0::/64","since":"2026-11-30T00:00:00Z","until":null,"reason":"asks 100 times as much as others","author":"admin"}]}`
	})
	one := `{"by":"client","window":"1m","step":2,"requests":99990,"refused":98000,"entries":[{"rank":1,"key":"2001:db8:4a1c:77f0::/64",
		"source":"forwarded","requests":9999,"error":9999,"refused":9999,"share":0.9999,"spark":[1,2,3]}]}`
	b := open(t, s.URL, wide, high)
	for _, c := range []struct{ talkers, top string }{{"many talkers", s.recorded("top")}, {"one talker", one}} {
		s.set(func(s *standIn) { s.bodies["top"] = c.top })
		b.run(chromedp.Navigate(s.URL))
		b.await(live + ` && document.querySelector("[data-panel=bans] tbody tr") && document.querySelector('[aria-label^="Ban "]')`)
		b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; }); document.querySelector("#explain-form button").click()`))
		b.await(`document.querySelector("#explain-result .answer") && document.querySelector("#flow-table tr")`)
		for _, width := range []int64{narrow, 768, 1100, 1280, 1366, wide, 1920} {
			b.run(chromedp.EmulateViewport(width, high))
			b.await(fmt.Sprintf("innerWidth === %d", width))
			if got := value[string](b, beyond); got != "" {
				t.Errorf("%d pixels, %s: beyond the edge:\n%s", width, c.talkers, got)
			}
		}
	}
}
