package engine_test

import (
	"net/http"
	"testing"

	"github.com/weirgate/weir"
)

var forbidden = weir.Outcome{HTTP: http.StatusForbidden}

// What is charged by the answer fills the limit, even where the cost is more than what is left: else
// the look before the request would let everybody pass for ever.
func TestLateChargeFillsTheLimit(t *testing.T) {
	h := build(t, `rules: [{name: r, path: /r, cost: 5, count: {only_statuses: [401]}, limits: [{rate: 12/1m, algorithm: fixed_window}]}]`)
	if got := h.passes(10, "/r", http.StatusUnauthorized); got != 3 {
		t.Errorf("%d passed at 5 of 12 each, want 3", got)
	}
}

// Each limit is charged by itself: a short one that is full keeps nothing from the long one.
func TestLateChargesAreIndependent(t *testing.T) {
	h := build(t, `rules: [{name: r, path: /r, count: {only_statuses: [403]},
  limits: [{name: short, rate: 1/1s, algorithm: fixed_window}, {name: long, rate: 20/1d, algorithm: fixed_window}]}]`)
	// Forty requests pass together, before the first answer.
	var pending []func()
	for range 40 {
		s, d := h.ask("/r")
		if d.Refused() {
			t.Fatal("refused before any answer")
		}
		pending = append(pending, func() { h.Record(s, d, forbidden) })
	}
	for _, end := range pending {
		end()
	}
	h.at(5e9) // the short limit is free again, the long one is full
	if got := h.passes(3, "/r", http.StatusForbidden); got != 0 {
		t.Errorf("%d more passed a limit of 20 that 40 have used", got)
	}
}
