package road

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
)

const barDecision = 600 // ns

const decisionNote = "`engine.Decide` and `engine.Record` for one request, with the clock read for both, the client resolved from a " +
	"chain of one proxy, one rule with one limit, the memory store and the journal. Processor time, the quiet quarter of the rounds."

// Decision measures a whole decision with one limit.
func Decision(o Options) (report.Section, error) {
	s := report.Section{Title: "A whole decision with one limit", Note: decisionNote}
	store := memory.New(memory.Options{})
	defer store.Close()
	var contenders []rounds.Contender
	for _, c := range []struct{ name, text string }{
		{"passing", onePolicy("1000000000/1h")},
		{"refused", onePolicy("1/1h")},
		{"two limits", onePolicy("1000000000/1h", "900000000/1m")},
	} {
		p, err := compile(c.text)
		if err != nil {
			return s, err
		}
		j := journal.New(journal.Options{Rules: p.Names()})
		snapshot := &engine.Snapshot{Policy: p, Store: store, Respond: respond.New(respond.Options{})}
		e := engine.New(snapshot, j, engine.Clock())
		contenders = append(contenders, rounds.Contender{Name: c.name, Do: decisions(e)})
	}
	contenders = append(contenders, rounds.Contender{Name: "two clock readings", Do: func(n int) {
		for range n {
			began := time.Now()
			_ = time.Since(began)
		}
	}})
	t := o.run(contenders)
	s.Checks = []report.Check{
		check("decided and recorded, passing", t[0], t[3], barDecision),
		check("decided and recorded, refused", t[1], t[3], barDecision),
		{What: "with two limits" + beyond(t[2]), Measured: t[2].NS, Unit: "ns", Beside: "one limit", Ratio: rounds.Ratio(t[2].Rounds, t[0].Rounds)},
	}
	return s, nil
}

func onePolicy(rates ...string) string {
	text := "client: {from_right: 1, peers: [10.0.0.0/8]}\nrules:\n  - name: api\n    path: /api/\n    limits:\n"
	for _, rate := range rates {
		text += fmt.Sprintf("      - {rate: %s, per: client}\n", rate)
	}
	return text
}

// request is what a proxy hands on.
func request() weir.Request {
	return weir.Request{
		Front: "bench", Peer: netip.MustParseAddr("10.0.0.1"), Method: http.MethodGet, Host: "www.example.com",
		Path: "/api/search", Query: "q=x", Scheme: "http",
		Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}, "User-Agent": {"bench"}, "Accept": {"*/*"}},
	}
}

func decisions(e *engine.Engine) func(n int) {
	req, ctx := request(), context.Background()
	return func(n int) {
		for range n {
			s := e.Current()
			d := e.Decide(ctx, s, req)
			e.Record(s, d, weir.Outcome{HTTP: d.HTTP})
		}
	}
}
