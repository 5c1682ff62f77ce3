package journal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
)

// diagnoseEvery is how often the findings are compared with those before.
const diagnoseEvery = 10 * time.Second

// A Finding is one thing that shows that the configured picture of the proxies is wrong.
type Finding struct {
	Code  string    `json:"code"`
	Since time.Time `json:"since"`
	Text  string    `json:"text"` // in an operator's words, with clients' addresses masked
	Edit  string    `json:"edit"` // configuration lines that mend it; empty where it is not mended there
}

// A diagnosis is the chain monitor and what it last said.
type diagnosis struct {
	monitor atomic.Pointer[chain.Monitor]
	found   atomic.Uint32 // the codes of the last look
}

func newDiagnosis(c chain.Config) *diagnosis {
	g := new(diagnosis)
	g.monitor.Store(chain.New(c))
	return g
}

// see notes what is to be seen of d, if anybody was looked for.
func (g *diagnosis) see(n *note, d *weir.Decision) {
	n.seen = n.known && !n.again && d.Reason != weir.Disabled
	if n.seen {
		g.monitor.Load().See(&n.sight, d, n.clientHash)
	}
}

// take shows the monitor what was seen.
func (g *diagnosis) take(notes []*note) {
	sights := make([]*chain.Sight, 0, pageNotes)
	for _, n := range notes {
		if n.seen {
			sights = append(sights, &n.sight)
		}
	}
	g.monitor.Load().Add(sights...)
}

// SetChain begins a new chain diagnosis. It is for a reload that changed how clients are found; what
// the old one found is cleared at the next look.
func (j *Journal) SetChain(c chain.Config) {
	j.settle()
	j.diagnosis.monitor.Store(chain.New(c))
}

// Findings returns what the chain diagnosis says at this moment, in the order of the codes.
func (j *Journal) Findings() []Finding {
	j.settle()
	findings := []Finding{}
	for _, f := range j.diagnosis.monitor.Load().Findings(j.now()) {
		findings = append(findings, Finding{Code: codeName(f.Code), Since: f.Since, Text: f.Text, Edit: f.Edit})
	}
	return findings
}

// Run writes down every second what was blocked, looks at the breaker every second, and every 10 seconds at the chain diagnosis, of which it logs what
// appeared and what is gone, and at evictions, of which it warns, until ctx ends. It is run once.
func (j *Journal) Run(ctx context.Context) {
	tick, glance := time.NewTicker(diagnoseEvery), time.NewTicker(time.Second)
	defer tick.Stop()
	defer glance.Stop()
	var saving sync.WaitGroup // apart: a disk may be slow
	saving.Go(func() { j.saveUntil(ctx) })
	defer saving.Wait()
	for {
		select {
		case <-ctx.Done():
			j.flush()
			return
		case <-glance.C:
			j.breaker.look(j.now())
		case <-tick.C:
			j.settle()
			j.talkers.finish(j.now())
			j.diagnose()
			j.evictions.look(j.now(), j.log)
		}
	}
}

// saveUntil calls Save every second until ctx ends.
func (j *Journal) saveUntil(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			j.Save()
		}
	}
}

// diagnose logs each finding once when it appears and once when it is gone.
func (j *Journal) diagnose() {
	j.settle()
	before := weir.Codes(j.diagnosis.found.Load())
	var found weir.Codes
	for _, f := range j.diagnosis.monitor.Load().Findings(j.now()) {
		found |= f.Code
		if before&f.Code == 0 {
			words := []any{"code", codeName(f.Code), "text", f.Text}
			if f.Edit != "" {
				words = append(words, "edit", f.Edit)
			}
			j.log.Warn("client diagnosis", words...)
		}
	}
	for _, code := range (before &^ found).Names() {
		j.log.Info("client diagnosis cleared", "code", code)
	}
	j.diagnosis.found.Store(uint32(found))
}

// codeName returns the name of a single code.
func codeName(c weir.Codes) string { return c.Names()[0] }
