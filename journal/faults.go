package journal

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/weirgate/weir"
)

// RefusedConnection notes that a front ended a connection for a fault, before there was a request to
// decide. The peer is the zero Addr at a unix socket. The log line is one of those about refusals.
func (j *Journal) RefusedConnection(fault string, peer netip.Addr) {
	j.Fault(fault)
	suppressed, ok := j.lines.take(j.now())
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("peer", j.peer(peer)), slog.String("fault", fault)}
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	j.log.LogAttrs(context.Background(), slog.LevelInfo, "refused connection", attrs...)
}

// Fault is [Journal.RefusedConnection] without a word in the log.
func (j *Journal) Fault(fault string) { j.counts.faults.add(fault) }

// peer returns what the log may say about addr.
func (j *Journal) peer(addr netip.Addr) string {
	if !addr.IsValid() {
		return "unix"
	}
	return j.masker.client(&weir.Client{Prefix: netip.PrefixFrom(addr, addr.BitLen())})
}

// faultCounts count refused connections. What they point to alone changes.
type faultCounts struct {
	names []string // the last is other
	n     []atomic.Uint64
}

func newFaultCounts(names []string) faultCounts {
	names = append(slices.Clone(names), other)
	return faultCounts{names, make([]atomic.Uint64, len(names))}
}

func (c *faultCounts) add(fault string) {
	i := slices.Index(c.names, fault)
	if i < 0 {
		i = len(c.names) - 1
	}
	c.n[i].Add(1)
}

// emit tells of every known fault, if only 0: an alert on the increase needs to see the beginning.
func (c *faultCounts) emit(e emit) {
	for i, name := range c.names {
		if n := c.n[i].Load(); n > 0 || i < len(c.names)-1 {
			e(float64(n), name)
		}
	}
}
