package app

import (
	"net/netip"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/internal/bounded"
)

// A room is how many connections each part may hold, so that the process never runs out of descriptors and
// every part goes on while another is crowded.
type room struct {
	clients   int // of the proxy
	upstreams int // to all services behind it
	asks      int // of each front that proxies ask, at most [bounded.Most]
	admin     int
}

// Bounds where the system names none worth the name.
const (
	mostOpen = 1 << 20 // connections of clients: some 20 GB
	setAside = 1000    // descriptors for files, stores and the admin address, or a quarter if that is less
)

// share divides so many descriptors among what a configuration opens.
func share(descriptors uint64, c *config.Config) room {
	all := int(min(descriptors, 2*mostOpen+setAside))
	aside := min(setAside, all/4)
	parts := 1
	for _, addr := range []string{c.ForwardAuth.Listen, c.RLS.Listen, c.ExtAuthz.Listen} {
		if addr != "" {
			parts++
		}
	}
	asks := max(1, min(bounded.Most, (all-aside)/(parts+1)))
	left := (all - aside - asks*(parts-1)) / 2
	return room{clients: max(1, left), upstreams: max(1, left), asks: asks, admin: max(1, min(mostAdmin, aside/2))}
}

// refusedByProxy notes what the proxy refuses. A crowd is counted only: the proxy says by itself that there is one.
func (a *App) refusedByProxy(fault string, peer netip.Addr) {
	if fault == proxy.Crowded {
		a.journal.Fault(fault)
		return
	}
	a.journal.RefusedConnection(fault, peer)
}
