package admin

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// The minute ends for all at once; to the nanosecond, and also where the clock is set back.
func TestGuessesAreOfAMinute(t *testing.T) {
	g, noon, asker := new(guesses), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), netip.MustParsePrefix("203.0.113.7/32")
	for range mostWrong {
		if wait := g.judge(noon, asker, false); wait != 0 {
			t.Fatalf("not listened to for %s, too early", wait)
		}
	}
	for _, tc := range []struct {
		at    time.Duration
		asker string
		want  time.Duration
	}{
		{0, "203.0.113.7/32", time.Minute}, // with the right one
		{59 * time.Second, "203.0.113.7/32", time.Second},
		{time.Minute - 1, "203.0.113.7/32", 1},
		{0, "203.0.113.8/32", 0},
		{time.Minute, "203.0.113.7/32", 0},
		{-time.Second, "203.0.113.7/32", 0},
	} {
		if got := g.judge(noon.Add(tc.at), netip.MustParsePrefix(tc.asker), true); got != tc.want {
			t.Errorf("%s after %s: %s, want %s", tc.asker, tc.at, got, tc.want)
		}
	}
}

// However many guess, so many are remembered; the others guess together.
func TestGuessersAreBounded(t *testing.T) {
	g, noon := new(guesses), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	heard := 0
	for i := range 10 * mostGuessers {
		asker := netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255))
		if g.judge(noon, asker, false) == 0 {
			heard++
		}
	}
	if want := mostGuessers + mostWrong; heard != want || len(g.wrong) != mostGuessers+1 {
		t.Errorf("%d were heard, %d are remembered; want %d and %d", heard, len(g.wrong), want, mostGuessers+1)
	}
}

// Whoever has more networks than are told apart keeps nobody out whom he does not share one with.
func TestManyGuessersLockNobodyOut(t *testing.T) {
	g, noon := new(guesses), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	network := netip.MustParsePrefix("2001:db8:1::/48").Addr().As16()
	for i := range mostGuessers + mostWrong {
		network[6], network[7] = byte(i>>8), byte(i)
		g.judge(noon, netip.PrefixFrom(netip.AddrFrom16(network), guesserIPv6), false)
	}
	operator := netip.MustParsePrefix("203.0.113.7/32")
	if wait := g.judge(noon, operator, true); wait != 0 {
		t.Errorf("the right token waits for %s", wait)
	}
	if wait := g.judge(noon, operator, false); wait != time.Minute {
		t.Errorf("a wrong one waits for %s, want a minute", wait)
	}
}

// Who has a network of IPv6 is one asker; so is who comes through a unix socket.
func TestGuesserOf(t *testing.T) {
	for addr, want := range map[string]string{"203.0.113.7": "203.0.113.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64"} {
		if got := guesserOf(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	if got := guesserOf(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("a unix socket: %s", got)
	}
}
