package road

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/clientip"
)

// Bars of the resolution, in nanoseconds, and how far a forged header may move it.
const (
	barHop    = 100
	barWalk   = 300
	unchanged = 1.10
)

const clientNote = "`clientip.Resolver.Resolve`: the entry that the nearest proxy appended, and a walk past two trusted hops with 25 trusted " +
	"ranges; each as it comes from honest clients, behind one entry more, and behind 60 KB that an attacker sent. Beside it what is usually written: " +
	"`strings.Split`, then the last entry parsed."

// forgedBytes is what an attacker puts before what the proxy appends.
const forgedBytes = 60 << 10

// Client measures how long it takes to find out who is asking.
func Client(o Options) (report.Section, error) {
	s := report.Section{Title: "Who is asking", Note: clientNote}
	hop, err := resolver(clientip.Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}})
	if err != nil {
		return s, err
	}
	walk, err := resolver(clientip.Config{TrustedProxies: append(ranges(24), "10.0.0.0/8")})
	if err != nil {
		return s, err
	}
	forged := strings.Repeat("1.2.3.4, ", forgedBytes/len("1.2.3.4, "))
	const client, chain = "203.0.113.7", "203.0.113.7, 10.0.0.9, 10.0.0.8"
	t := o.run([]rounds.Contender{
		resolution("one hop", hop, client),
		resolution("one hop, forged", hop, forged+client),
		resolution("walk", walk, chain),
		resolution("walk, forged", walk, forged+chain),
		resolution("one hop, one entry prepended", hop, "1.2.3.4, "+client),
		resolution("walk, one entry prepended", walk, "1.2.3.4, "+chain),
		split("strings.Split", client),
		split("strings.Split, forged", forged+client),
	})
	s.Checks = []report.Check{
		check("one hop", t[0], t[6], barHop),
		check("one hop behind 60 KB", t[1], t[7], barHop),
		steady("one hop: forged over clean", t[1], t[0]),
		steady("one hop: forged over one entry prepended", t[1], t[4]),
		check("25-range walk", t[2], t[6], barWalk),
		check("25-range walk behind 60 KB", t[3], t[7], barWalk),
		steady("25-range walk: forged over clean", t[3], t[2]),
		steady("25-range walk: forged over one entry prepended", t[3], t[5]),
	}
	return s, nil
}

func steady(what string, forged, clean rounds.Timing) report.Check {
	ratio := rounds.Ratio(forged.Rounds, clean.Rounds)
	return report.Check{What: what, Measured: forged.NS, Unit: "ns", Beside: fmt.Sprintf("%s ns", report.Figure(clean.NS)),
		Ratio: ratio, Bar: fmt.Sprintf("unchanged: <= %.2f", unchanged), Met: ratio <= unchanged}
}

func resolver(c clientip.Config) (*clientip.Resolver, error) {
	r, problems := clientip.New(c)
	if r == nil {
		return nil, fmt.Errorf("clientip: %v", problems)
	}
	return r, nil
}

// ranges returns n networks that do not touch and hold nobody here.
func ranges(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("20.0.%d.0/25", i))
	}
	return all
}

func resolution(name string, r *clientip.Resolver, chain string) rounds.Contender {
	req := request()
	req.Header = http.Header{"X-Forwarded-For": {chain}, "User-Agent": {"bench"}, "Accept": {"*/*"}}
	return rounds.Contender{Name: name, Do: func(n int) {
		var c weir.Client
		for range n {
			c = weir.Client{}
			r.Resolve(&req, &c)
		}
		if c.Addr != netip.MustParseAddr("203.0.113.7") {
			panic(fmt.Sprintf("%s: resolved %v", name, c.Addr))
		}
	}}
}

func split(name, chain string) rounds.Contender {
	h := http.Header{"X-Forwarded-For": {chain}}
	return rounds.Contender{Name: name, Do: func(n int) {
		for range n {
			entries := strings.Split(h.Get("X-Forwarded-For"), ",")
			if _, err := netip.ParseAddr(strings.TrimSpace(entries[len(entries)-1])); err != nil {
				panic(err)
			}
		}
	}}
}
