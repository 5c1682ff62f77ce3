package app

import (
	"net/netip"

	"github.com/weirgate/weir/front/proxy"
)

// A room is how many connections each part may hold, so that the process never runs out of descriptors and
// every part goes on while another is crowded.
type room struct {
	clients   int // of the proxy
	upstreams int // to all services behind it
	asks      int // of each front that proxies ask
	admin     int
}

// Bounds where the system names none worth the name.
const (
	mostOpen = 1 << 20 // connections of clients: some 20 GB
	mostAsks = 4096    // connections to a front that proxies ask: a proxy has a few for each of its threads
	setAside = 1000    // descriptors for files, stores and the admin address, or a quarter if that is less
)

// share divides so many descriptors among what l opens.
func share(descriptors uint64, l *Loaded) room {
	all := int(min(descriptors, 2*mostOpen+setAside))
	aside := min(setAside, all/4)
	fronts := asked(l)
	asks := max(1, min(mostAsks, (all-aside)/(fronts+2)))
	left := (all - aside - asks*fronts) / 2
	return room{clients: max(1, left), upstreams: max(1, left), asks: asks, admin: max(1, min(mostAdmin, aside/2))}
}

// asked is how many fronts that proxies ask l opens.
func asked(l *Loaded) (n int) {
	c := l.Config
	for _, addr := range []string{c.ForwardAuth.Listen, c.RLS.Listen, c.ExtAuthz.Listen, c.SPOE.Listen} {
		if addr != "" {
			n++
		}
	}
	if l.DropIn && c.RLS.Listen != "" {
		n += 2 // the service over HTTP, and its metrics
	}
	return n
}

// refusedByProxy notes what the proxy refuses. A crowd is counted only: the proxy says by itself that there is one,
// and over one connection very many requests can ask for upstreams.
func (a *App) refusedByProxy(fault string, peer netip.Addr) {
	if fault == proxy.Crowded || fault == proxy.NoLink {
		a.journal.Fault(fault)
		return
	}
	a.journal.RefusedConnection(fault, peer)
}
