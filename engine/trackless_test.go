package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// A marker is a verifier that leaves traces.
type marker struct{ traces *[]string }

func (m marker) Verify(context.Context, *weir.Decision) { *m.traces = append(*m.traces, "verified") }
func (m marker) Peek(context.Context, *weir.Decision)   { *m.traces = append(*m.traces, "looked") }

// A plain one leaves none, and has but one way.
type plain struct{ traces *[]string }

func (p plain) Verify(context.Context, *weir.Decision) { *p.traces = append(*p.traces, "plain") }

// To explain a request leaves no traces with who verifies it.
func TestPeekingVerifies(t *testing.T) {
	var traces []string
	var d weir.Decision
	for _, v := range []engine.Verifier{marker{&traces}, plain{&traces}, engine.Verifiers{marker{&traces}, plain{&traces}}} {
		s := &engine.Snapshot{Verifier: v}
		s.Verifier.Verify(t.Context(), &d)
		s.Peeking().Verifier.Verify(t.Context(), &d)
	}
	if want := []string{"verified", "looked", "plain", "plain", "verified", "plain", "looked", "plain"}; !slices.Equal(traces, want) {
		t.Errorf("%v, want %v", traces, want)
	}
}
