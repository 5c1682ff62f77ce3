package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// banning is a stand-in of a Weir that has bans, of which there are those.
func banning(t *testing.T, bans string) *standIn {
	s := newStandIn(t)
	s.bodies["session"] = `{"token":"admin","writes":true,"version":"0.5.0","bans":true,"blocked":true,"read_only":""}`
	s.bodies["bans"] = bans
	return s
}

const nobody = `{"total":0,"bans":[]}`

// An operator bans somebody by keyboard alone: the empty card says where, the question asks for how long and why,
// and whom he would not have meant takes a second yes.
func TestBanByKeyboard(t *testing.T) {
	t.Parallel()
	s := banning(t, nobody)
	b := open(t, s.URL, wide, high)
	b.await(live)
	b.expect("409") // the browser notes the refusal
	if got := b.text("[data-panel=bans]"); !strings.Contains(got, "Nobody is banned") || !strings.Contains(got, "Ban a client here") {
		t.Errorf("without bans: %q", got)
	}
	b.run(chromedp.Focus(css("#ban-who")), chromedp.SendKeys(css("#ban-who"), "127.0.0.0/8"+kb.Enter))
	b.await(`document.getElementById("sure").open && document.activeElement.id === "sure-reason" && document.getElementById("sure-title").textContent === "Ban 127.0.0.0/8?"`)
	b.check("bans, asked")
	b.run(chromedp.SetValue(css("#sure-for"), ""), chromedp.SendKeys(css("#sure-reason"), "a drill"+kb.Enter))
	b.await(`document.getElementById("sure-fault").textContent === "127.0.0.0/8 is this machine" && !document.getElementById("sure-force-row").hidden`)
	b.check("bans, protected")
	b.run(chromedp.Focus(css("#sure-force")), chromedp.KeyEvent(" "), chromedp.Focus(css("#sure-yes")), chromedp.KeyEvent(kb.Enter))
	b.await(`document.getElementById("said").textContent === "Banned 127.0.0.0/8 until the ban is lifted."`)
	b.await(`document.querySelector("[data-panel=bans] tbody tr")?.innerText.includes("127.0.0.0/8") && document.getElementById("ban-who").value === ""`)
	if got := b.text("[data-panel=bans]"); !strings.Contains(got, "a drill") || !strings.Contains(got, "lifted") {
		t.Errorf("the list: %q", got)
	}
	b.check("bans, listed")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changes) != 1 || s.changes[0] != "POST bans?" {
		t.Errorf("changes: %q", s.changes)
	}
}

// Who may only read sees the bans and no button; a list that cannot be read says so, and can be asked for again.
func TestBansForReaders(t *testing.T) {
	t.Parallel()
	s := banning(t, `{"total":1200,"bans":[{"subject":"key:k1","reason":"<b>loud</b>","author":"penalty","since":"2026-11-30T00:00:00Z","until":null}]}`)
	s.bodies["session"] = `{"token":"read","writes":false,"version":"0.5.0","bans":true,"blocked":true,"read_only":"this token only reads"}`
	b := open(t, s.URL, narrow, high)
	b.await(live)
	if got := b.text("[data-panel=bans]"); !strings.Contains(got, "<b>loud</b>") || !strings.Contains(got, "The newest 1 of 1,200") {
		t.Errorf("the list: %q", got)
	}
	if value[bool](b, `Boolean(document.querySelector("[data-panel=bans] button, [data-panel=bans] form, [aria-label^='Ban ']"))`) {
		t.Error("who may only read is offered a change")
	}
	b.expect("503")
	s.set(func(s *standIn) { s.bodies["bans"] = "503!redis is away" })
	b.run(chromedp.Reload())
	b.await(`document.querySelector("[data-panel=bans] .broken")?.innerText.includes("redis is away")`)
	s.set(func(s *standIn) { s.bodies["bans"] = nobody })
	b.run(chromedp.Click(css("[data-panel=bans] .broken button")))
	b.await(`document.querySelector("[data-panel=bans]").innerText.includes("Nobody is banned")`)
}

// A blocked request's client can be banned where the log says who it was, and not a whole network where it is masked.
func TestBanOfABlockedClient(t *testing.T) {
	t.Parallel()
	s := banning(t, nobody)
	s.bodies["blocked"] = `{"proposals":[],"insights":[],"blocked":[
		{"incident":"A","time":"2026-11-30T00:00:00Z","client":"203.0.113.9/32","verdict":"block","method":"GET","matches":1,"path":"/","rule":"sqli","class":"","location":"query.q","fragment":"","score":5,"exclusion":""},
		{"incident":"B","time":"2026-11-30T00:00:00Z","client":"198.51.100.0/24","verdict":"block","method":"GET","matches":1,"path":"/","rule":"sqli","class":"","location":"query.q","fragment":"","score":5,"exclusion":""}]}`
	b := open(t, s.URL, wide, high)
	b.await(live)
	if got := value[int](b, `document.querySelectorAll('#blocked [aria-label^="Ban "]').length`); got != 1 {
		t.Errorf("%d can be banned, want 1", got)
	}
	b.run(chromedp.Click(css(`[aria-label="Ban 203.0.113.9/32: incident A"]`)), chromedp.Click(css("#sure-yes")))
	b.await(`document.getElementById("said").textContent === "Banned 203.0.113.9/32 for 10m."`)
}
