package forwardauth

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/noise"
)

// A fault is why an ask has no decision. The worst is the greatest.
type fault uint8

const (
	none fault = iota
	badField
	repeatedField
	missingField
	untrustedPeer
	unknownPath
	// noID is no reason to refuse: the ask is decided, as a request that is asked about once.
	noID
	endOfFaults
)

// A remedy is what is said of a fault.
type remedy struct {
	name   string // as a metric's label
	status int    // that the ask is refused with
	detail string // for whoever reads the refusal: it may be a client
	mend   string // for who reads the log
}

var remedies = [endOfFaults]remedy{
	badField: {"ask_bad_field", http.StatusBadRequest, "The request that the proxy asks about is not one that Weir can read.",
		"compare the proxy's configuration with docs/forward-auth.md; a client that sends an absolute request target causes this, too"},
	repeatedField: {"ask_repeated_field", http.StatusBadRequest, "The proxy tells of the request twice.",
		"have the proxy overwrite the fields that tell of the request (nginx: proxy_set_header, as in deploy/forward-auth-nginx.conf)"},
	missingField: {"ask_missing_field", http.StatusBadRequest, "The proxy does not tell what request it asks about.",
		"have the proxy send what deploy/forward-auth-nginx.conf, deploy/Caddyfile.forward-auth or deploy/traefik-forward-auth.yml say, and check that it asks at its own path"},
	untrustedPeer: {"ask_untrusted_peer", http.StatusForbidden, "Weir does not know the proxy that asks.",
		"name it in weir.yaml, as in client: {path: [nginx]} or client: {path: [{name: nginx, cidrs: [ADDRESS]}]}"},
	unknownPath: {"ask_unknown_path", http.StatusNotFound, "Nothing is asked at this path.",
		"ask at /auth/nginx, /auth/caddy or /auth/traefik"},
	noID: {mend: "add proxy_set_header X-Weir-Request-Id $request_id to nginx's location that asks: without it a request that nginx asks about twice is charged twice, or a client chooses the name"},
}

// Faults returns every fault that [Options.Refused] is told of.
func Faults() []string {
	var names []string
	for _, r := range remedies {
		if r.name != "" {
			names = append(names, r.name)
		}
	}
	return names
}

// notices write one line a minute for each fault.
type notices struct {
	log   *slog.Logger
	kinds [endOfFaults]struct {
		next atomic.Int64 // when there may be a line again, in Unix nanoseconds
		n    atomic.Int64 // since the last line
	}
}

// tell notes that f was found in an ask that came as req says.
func (n *notices) tell(f fault, req *weir.Request) {
	k, now := &n.kinds[f], time.Now()
	count, next := k.n.Add(1), k.next.Load()
	if now.UnixNano() < next || !k.next.CompareAndSwap(next, now.Add(time.Minute).UnixNano()) {
		return
	}
	k.n.Add(-count)
	what := "a proxy that asks was refused"
	if f == noID {
		what = "a proxy asks without a request id"
	}
	n.log.Warn(what, "fault", remedies[f].name, "peer", noise.Peer(req.Peer, req.Unix), "asks", count, "mend", remedies[f].mend)
}
