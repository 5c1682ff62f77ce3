package admin

import (
	"net/netip"
	"sync"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

const (
	guessMinute  = time.Minute
	mostWrong    = 300  // tokens of one asker in a minute
	mostGuessers = 1024 // askers that are told apart; further ones are one
	guesserIPv6  = 64   // bits of an address of IPv6 that are one asker
)

// The name under which the journal counts and logs wrong tokens.
const wrongToken = "admin_wrong_token"

// guesses bound how often tokens are guessed. Whoever bore mostWrong wrong ones is not listened to until the minute is
// over, a short right one included: else it could be found among them. Askers beyond mostGuessers are refused their wrong
// ones alone: whoever has a /48 of IPv6 is as many askers as he likes, and would lock out everybody else. It is safe
// for concurrent use.
type guesses struct {
	mu    sync.Mutex
	began time.Time
	wrong map[netip.Prefix]int
}

// judge notes whether a token was right, and returns for how long its asker is not listened to, or 0.
func (g *guesses) judge(now time.Time, asker netip.Prefix, right bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong == nil || now.Sub(g.began) >= guessMinute || now.Before(g.began) {
		g.began, g.wrong = now, map[netip.Prefix]int{}
	}
	if _, known := g.wrong[asker]; !known && len(g.wrong) >= mostGuessers {
		if right {
			return 0
		}
		asker = netip.Prefix{}
	}
	if g.wrong[asker] >= mostWrong {
		return guessMinute - now.Sub(g.began)
	}
	if !right {
		g.wrong[asker]++
	}
	return 0
}

// guesserOf returns who asks from a peer's address; the zero Prefix at a unix socket.
func guesserOf(peer netip.Addr) netip.Prefix {
	bits := guesserIPv6
	if peer.Is4() {
		bits = peer.BitLen()
	}
	p, _ := peer.Prefix(bits) // fails for the zero Addr alone
	return p
}

// guessed returns for how long c is not listened to because of wrong tokens, or 0. Who bears none guesses none, and
// who bears a right one that is too long to be guessed is let in, whoever else guesses behind his address.
func (s *Server) guessed(c *call, right bool) time.Duration {
	bears := c.r.Header.Get("Authorization")
	if !s.tokens.any || bears == "" || right && len(bears) >= len("Bearer ")+config.LeastToken {
		return 0
	}
	peer, _ := weir.ParsePeer(c.r.RemoteAddr)
	if !right {
		s.o.Journal.RefusedConnection(wrongToken, peer)
	}
	return s.guesses.judge(s.o.Now(), guesserOf(peer), right)
}

// Faults are the names under which the journal counts what is refused here.
func Faults() []string { return []string{wrongToken} }
