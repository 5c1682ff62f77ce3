package waf

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// Slots bound how many requests are inspected at once, over all rule sets, and how many of one client.
type Slots struct {
	free    chan struct{}
	maxWait time.Duration
	pass    OnSaturation
	each    int // of one client

	mu   sync.Mutex
	held map[string]int // by client; at most as many as there are slots
}

// An OnSaturation says what becomes of a request that got no slot in time.
type OnSaturation uint8

const (
	RejectSaturated OnSaturation = iota // answered 503
	PassSaturated                       // passes uninspected
)

// NewSlots returns n slots, of which one client may hold half, rounded up. A request waits for one at
// most maxWait.
func NewSlots(n int, maxWait time.Duration, pass OnSaturation) *Slots {
	return &Slots{free: make(chan struct{}, n), maxWait: maxWait, pass: pass, each: (n + 1) / 2, held: map[string]int{}}
}

// take waits for a slot and reports whether there is one, which is to be left again. Nil Slots have one
// for everybody.
func (s *Slots) take(ctx context.Context, client string) bool {
	return s == nil || s.try(client) || s.wait(ctx, client)
}

// try takes a slot if one is free.
func (s *Slots) try(client string) bool {
	select {
	case s.free <- struct{}{}:
		if s.hold(client) {
			return true
		}
		<-s.free
	default:
	}
	return false
}

// wait is take for those who found no slot at once. Who holds his share tries again while others go first.
func (s *Slots) wait(ctx context.Context, client string) bool {
	ctx, cancel := context.WithTimeout(ctx, s.maxWait)
	defer cancel()
	retry := time.NewTicker(max(s.maxWait/16, time.Millisecond))
	defer retry.Stop()
	for {
		select {
		case s.free <- struct{}{}:
			if s.hold(client) {
				return true
			}
			<-s.free
		case <-ctx.Done():
			return false
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return false
		}
	}
}

// hold notes a slot for client, if that is within its share.
func (s *Slots) hold(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != "" && s.held[client] >= s.each {
		return false
	}
	s.held[client]++
	return true
}

// leave gives back what take took.
func (s *Slots) leave(client string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.held[client]--; s.held[client] == 0 {
		delete(s.held, client)
	}
	s.mu.Unlock()
	<-s.free
}

// saturated fills r for a request that got no slot.
func (s *Slots) saturated(mode weir.Mode, r *weir.Inspection) {
	r.Fault = "saturated"
	if r.Verdict = weir.FailedOpen; s.pass == RejectSaturated && mode == weir.Enforce {
		r.Verdict, r.HTTP = weir.Blocked, http.StatusServiceUnavailable
	}
}
