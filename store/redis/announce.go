package redis

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A policy is who counts by what, as replicas tell each other.
type policy struct{ print, name string }

const (
	policyTerm   = 3 * rounds // how long it is known without a word
	mostPolicies = 16         // that are told of
	mostName     = 200        // bytes
)

// Announce says by which policy this replica, called name, counts from now on. Replicas that share a
// prefix should have one print, which has no spaces. Without Options.Logger nobody is told.
func (s *Store) Announce(print, name string) {
	s.policy.Store(&policy{print, name[:min(len(name), mostName)]})
	s.target.connected()
}

// comparePolicy tells the others which policy is in use here, and reports whether another was lately.
func (s *Store) comparePolicy(ctx context.Context) bool {
	own := s.policy.Load()
	if own == nil {
		return false
	}
	s.others.reset(own)
	if other, known := s.exchange(ctx, own); known && other.print != own.print && other.name != own.name {
		s.others.until = s.clock() + policyTerm
		if s.others.isNews(other.print) {
			s.log.Warn(advice[OtherPolicy], "prefix", s.prefix, "other replica", other.name, "its policy", other.print, "this policy", own.print)
		}
	}
	return s.clock() < s.others.until
}

// exchange leaves own where all replicas look, and returns what the last one left there.
func (s *Store) exchange(ctx context.Context, own *policy) (other policy, known bool) {
	key := s.prefix + ":{weir}:policy"
	l, err := s.link.Load().line(ctx, key)
	if err != nil {
		return policy{}, false
	}
	pipe := l.client.Pipeline()
	before := pipe.Get(ctx, key)
	pipe.Set(ctx, key, own.print+" "+own.name, policyTerm)
	_, _ = pipe.Exec(ctx) // what was not left is left in the next round
	other.print, other.name, known = strings.Cut(before.Val(), " ")
	other.name = other.name[:min(len(other.name), mostName)]
	return other, known
}

// others are the policies of other replicas that were told of. Only the goroutine that looks uses them.
type others struct {
	own   *policy
	told  []string
	until time.Duration // when the last one is forgotten
}

// reset forgets all if own is a new one.
func (o *others) reset(own *policy) {
	if o.own != own {
		*o = others{own: own}
	}
}

// isNews reports whether print is to be told of.
func (o *others) isNews(print string) bool {
	if slices.Contains(o.told, print) || len(o.told) >= mostPolicies {
		return false
	}
	o.told = append(o.told, print)
	return true
}
