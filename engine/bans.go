package engine

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/weirgate/weir"
)

// bans proves who asks, and reports whether a ban answers d. A banned address is refused before its key is
// looked at, so that a flood buys no look-ups, unless keys could be allowed what addresses are not.
func (s *Snapshot) bans(ctx context.Context, d *weir.Decision) bool {
	if s.Policy.Disabled {
		return false
	}
	if !s.Policy.AllowsKeys() && s.banned(d) {
		return true
	}
	if s.Verifier == nil {
		return s.Policy.AllowsKeys() && s.banned(d)
	}
	s.Verifier.Verify(ctx, d)
	return s.banned(d)
}

// banned refuses d if a ban holds for its client, who is not allowed.
func (s *Snapshot) banned(d *weir.Decision) bool {
	if s.Bans == nil {
		return false
	}
	b := s.Bans.Find(d.At, &d.Client)
	if b == nil || s.Policy.Allows(&d.Client) {
		return false
	}
	d.Ban = b
	d.Refuse(weir.BannedClient, http.StatusForbidden)
	return true
}

// BanAround returns the ban that holds for all of a network and is not outdone by allow, or nil: for a front that is
// told an address, or its network, and nothing else of the client. Somebody other than the asker must have told it.
func (s *Snapshot) BanAround(now time.Time, n netip.Prefix) *weir.Ban {
	if s.Bans == nil {
		return nil
	}
	b := s.Bans.Around(now, n)
	if b == nil || s.Policy.Allows(&weir.Client{Addr: n.Addr(), Prefix: n, Source: weir.Forwarded}) {
		return nil
	}
	return b
}
