// Package tarpit keeps askers waiting, and never more of them than it may.
package tarpit

import (
	"context"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// A Tarpit holds askers, by rule and client. It is safe for concurrent use. The zero Tarpit is empty.
type Tarpit struct {
	mu    sync.Mutex
	held  int
	rules map[string]*slots // only rules that hold someone
}

// slots are what one rule holds.
type slots struct {
	held    int
	clients map[string]int // only clients that are held
}

// Hold keeps the caller for b.Delay, or until ctx is done, and reports true. If the rule or the client
// already has as many askers held as b allows, it returns false at once. What is held is given back the
// moment the wait ends.
func (t *Tarpit) Hold(ctx context.Context, rule, client string, b weir.TarpitBounds) bool {
	if !t.enter(rule, client, b) {
		return false
	}
	defer t.leave(rule, client)
	timer := time.NewTimer(b.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

// Held is how many askers are held at this moment.
func (t *Tarpit) Held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

// enter takes a slot if one is free.
func (t *Tarpit) enter(rule, client string, b weir.TarpitBounds) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.rules[rule]
	if s == nil {
		s = &slots{clients: make(map[string]int)}
	}
	if s.held >= b.MaxHeld || s.clients[client] >= b.MaxHeldPerClient {
		return false
	}
	if t.rules == nil {
		t.rules = make(map[string]*slots)
	}
	t.rules[rule] = s
	s.held++
	s.clients[client]++
	t.held++
	return true
}

// leave gives a slot back, and forgets whoever holds none.
func (t *Tarpit) leave(rule, client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.rules[rule]
	t.held--
	s.held--
	s.clients[client]--
	if s.clients[client] == 0 {
		delete(s.clients, client)
	}
	if s.held == 0 {
		delete(t.rules, rule)
	}
}
