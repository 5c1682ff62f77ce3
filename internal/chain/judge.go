package chain

import (
	"fmt"
	"time"

	"github.com/weirgate/weir"
)

const (
	maxStrays   = 16  // more peers than this that send headers are clients, not proxies
	minAgents   = 5   // as many people at least use the service
	minVaried   = 5   // as many different addresses are not a proxy's
	variedTimes = 5   // how much more clients vary than proxies
	mostOthers  = 20  // an edit trusts peers if at most one in so many requests comes from others
	mostPlain   = 100 // and looks further left if at most one client in so many may be a person
)

// judge returns what w shows.
func (m *Monitor) judge(w *window) []Finding {
	v := verdict{m: m, w: w}
	v.missing()
	v.broken()
	v.strays()
	v.clients()
	v.depth()
	v.length()
	v.everyone()
	return v.inOrder()
}

// A verdict collects the findings of a window.
type verdict struct {
	m     *Monitor
	w     *window
	found []Finding
}

// raise adds a finding.
func (v *verdict) raise(code weir.Codes, text, edit string) {
	v.found = append(v.found, Finding{Code: code, Since: v.m.since(code, v.w.began), Text: text, Edit: edit})
}

func (v *verdict) raised(code weir.Codes) bool {
	for _, f := range v.found {
		if f.Code == code {
			return true
		}
	}
	return false
}

// inOrder returns the findings in the order of their codes.
func (v *verdict) inOrder() []Finding {
	var list []Finding
	for code := weir.Codes(1); code&weir.AllCodes != 0; code <<= 1 {
		for _, f := range v.found {
			if f.Code == code {
				list = append(list, f)
			}
		}
	}
	return list
}

// count returns how many requests gave rise to code.
func (w *window) count(code weir.Codes) int {
	for i := range w.codes {
		if code == 1<<i {
			return w.codes[i]
		}
	}
	return 0
}

// believed returns how many requests came from peers whose headers are read.
func (w *window) believed() int {
	return w.sources[weir.Forwarded] + w.sources[weir.FromHeader] + w.sources[weir.AllTrusted] +
		w.sources[weir.PeerOnly] + w.sources[weir.Unresolved] - w.count(weir.PeerUnixUntrusted)
}

// missing: a trusted peer that writes no header lets its clients write one.
func (v *verdict) missing() {
	missing, all := v.w.count(weir.ChainMissing), v.w.believed()
	if missing*100 <= all {
		return
	}
	v.raise(weir.ChainMissing,
		fmt.Sprintf("%s of the requests from trusted proxies name no client: the proxy does not add the header, or these are its own health checks", percent(missing, all)),
		v.m.addHeader())
	if present := all - missing; missing*5 > all && present > 0 {
		v.raise(weir.HeaderNotAddedByProxy,
			fmt.Sprintf("%s of the requests from trusted proxies name no client while others do: the proxy passes on what clients send, so anyone can choose his address now, and the others share one limit", percent(missing, all)),
			v.m.addHeader())
	}
}

// broken: words of trusted hops that make no sense.
func (v *verdict) broken() {
	w := v.w
	if n := w.count(weir.ChainShort); n > 0 {
		v.raise(weir.ChainShort,
			fmt.Sprintf("%d chains were shorter than the configured proxies make them: a proxy was bypassed, or there are fewer than configured", n),
			v.m.fewer())
	}
	for _, b := range []struct {
		code weir.Codes
		what string
	}{
		{weir.ChainInvalidEntry, "had no address where a trusted proxy should have written one (unknown, a name, or nothing)"},
		{weir.HeaderDuplicate, "repeated a header that should have one value"},
		{weir.ChainTooLong, "had more trusted entries than are walked"},
		{weir.PeerUnixUntrusted, "came over a unix socket, which is not among the trusted proxies"},
	} {
		if n := w.count(b.code); n > 0 && n*100 >= w.requests {
			edit := ""
			if b.code == weir.PeerUnixUntrusted {
				edit = v.m.trust([]string{"unix"})
			}
			v.raise(b.code, fmt.Sprintf("%s of the requests %s", percent(n, w.requests), b.what), edit)
		}
	}
}

// strays: a few peers that are not listed and send chains are probably proxies.
func (v *verdict) strays() {
	w := v.w
	sent := w.count(weir.HeaderUnexpected) + w.count(weir.PeerUntrustedWithHeader)
	if sent*2 <= w.sources[weir.Direct] || sent*20 < w.requests || w.strays.dropped {
		return
	}
	peers := w.strays.networks(sent)
	if w.strays.used > maxStrays || len(peers) == 0 {
		return
	}
	text := fmt.Sprintf("%s of the requests come from %s, not configured as a proxy, and bear headers that proxies add", percent(sent, w.requests), namePeers(peers))
	edit := v.admit(peers, sent)
	switch {
	case w.count(weir.HeaderUnexpected) > 0:
		v.raise(weir.HeaderUnexpected, text+": if it is your proxy, all its clients count as one"+unsure(edit), edit)
	case v.ours(peers):
		v.raise(weir.PeerUnlistedProxy, text+": probably a proxy of yours, whose clients all count as one"+unsure(edit), edit)
	default:
		v.raise(weir.PeerUntrustedWithHeader, text+": a proxy that is not listed, or somebody who forges; the headers are not believed", "")
	}
}

// clients: everyone has become one, or nobody is who he is.
func (v *verdict) clients() {
	w := v.w
	key, n := w.clients.first()
	agents := w.agents.count()
	if n*100 >= w.requests*95 {
		switch {
		case agents >= minAgents && v.explained():
		case agents >= minAgents:
			text, edit := v.apart(key)
			v.raise(weir.OneClient, fmt.Sprintf("%s of the requests count as one client, %s, though they have %d different user agents: everyone shares one limit%s",
				percent(n, w.requests), maskNetwork(key), agents, text), edit)
		case w.lefts.count() >= minVaried:
			v.raise(weir.ClientConstant, fmt.Sprintf("%s of the requests count as one client, %s, while the entry left of it varies: it is one client who writes that entry himself, which is not believed, or a load balancer's address; %s",
				percent(n, w.requests), maskNetwork(key), proof), v.further())
		}
	}
	if n := w.count(weir.ClientSharedKnown); n*5 >= w.requests {
		v.raise(weir.ClientSharedKnown, fmt.Sprintf("%s of the requests come from the one address that Cloudflare Workers of all zones share", percent(n, w.requests)), "")
	}
	// People behind address translation have more user agents than addresses; those of a local
	// network do not.
	if hidden := w.innerClients.count()*3 <= w.innerAgents.count()*2; w.inner*2 >= w.requests && hidden && w.innerAgents.count() >= minAgents {
		v.raise(weir.ClientPrivate, fmt.Sprintf("%s of the clients have private addresses, and few of them: something before the proxies hides who is asking, such as a Kubernetes service with externalTrafficPolicy: Cluster, or one more proxy",
			percent(w.inner, w.requests)), v.further())
	}
}

// explained reports whether a finding already says why everyone is one client, and how to mend it.
func (v *verdict) explained() bool {
	return v.raised(weir.PeerUnlistedProxy) || v.raised(weir.HeaderNotAddedByProxy)
}

// depth: the wrong entry is taken.
func (v *verdict) depth() {
	w := v.w
	if w.tooLow() {
		what := "private addresses"
		if w.edge() > w.lowPrivate {
			what = "addresses of " + w.proxyName
		}
		v.raise(weir.DepthLow, fmt.Sprintf("%s of the clients are %s with a public address left of them: probably proxies, and the client is one entry further left; %s",
			percent(w.low, w.requests), what, proof), v.further())
	}
	if short := w.count(weir.ChainShort); v.m.cfg.FromRight > 1 && short*5 >= w.believed() && short > 0 && w.nearest.count() >= minVaried {
		v.raise(weir.DepthHigh, fmt.Sprintf("%s of the chains are too short, and %d different public addresses stand where a proxy should: from_right is too high, so anyone can choose his address now",
			percent(short, w.believed()), w.nearest.count()), v.m.fewer())
	}
}

// edge returns how many clients have a CDN's address, and a public one left of it.
func (w *window) edge() int { return w.low - w.lowPrivate }

// tooLow reports whether clients look like proxies.
func (w *window) tooLow() bool {
	varied := w.lowLefts.count() >= max(minVaried, variedTimes*w.lowClients.count())
	return w.low*5 >= w.requests && (varied || w.edge()*5 >= w.requests)
}

// outer reports whether an outer proxy is there: hardly a chain names a client whose address could be
// a person's own. The entries left of it prove nothing, since one client can write as many as he likes.
func (v *verdict) outer() bool {
	plain := v.w.sources[weir.Forwarded] - v.w.low
	return v.w.tooLow() && plain*mostPlain <= v.w.low
}

// length: chains are not what they were, or not what is configured.
func (v *verdict) length() {
	w := v.w
	if from, to, at, ok := v.changed(); ok {
		v.raise(weir.ChainModeChanged, fmt.Sprintf("chains usually had %s and have %s since %s: the path to here changed", entries(from), entries(to), at.UTC().Format("15:04 MST")), "")
		return
	}
	if n := w.count(weir.ChainLong); n*2 > w.believed() && !v.raised(weir.DepthLow) {
		v.raise(weir.ChainLong, fmt.Sprintf("%s of the chains are longer than the configured proxies make them: clients sent such a header themselves, which is not believed, or there is one proxy more; %s", percent(n, w.believed()), proof), v.further())
	}
}

// changed returns from which length to which chains changed, and when.
func (v *verdict) changed() (from, to uint8, at time.Time, ok bool) {
	w := v.w
	for length, n := range w.dominated {
		if n*5 >= w.chains && uint8(length) != w.lastDominated && !w.changedAt.IsZero() && w.dominated[w.lastDominated]*5 >= w.chains {
			return uint8(length), w.lastDominated, w.changedAt, true
		}
	}
	usual := w.usualEntries()
	return v.m.before, usual, w.began, usual != 0 && v.m.before != 0 && usual != v.m.before
}

// everyone: the configuration itself says that all are trusted.
func (v *verdict) everyone() {
	if v.w.count(weir.ConfigTrustsEveryone) > 0 {
		v.raise(weir.ConfigTrustsEveryone, "every address is trusted as a proxy: anyone can choose the address he is counted under", v.m.trustOnly("private"))
	}
}
