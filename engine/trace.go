package engine

import (
	"context"
	"net/http"
	"time"

	"github.com/weirgate/weir"
)

// A Tracer follows requests for somebody who collects traces. It is safe for concurrent use, and waits for nobody.
type Tracer interface {
	// Start begins the span of a request that has just arrived. It returns nil if this one is not traced.
	Start(req weir.Request) Span
}

// A Span is the time of one request in Weir. Its methods are called by one goroutine at a time.
type Span interface {
	// Part begins a part of the way, which ends with the call of done, whose error is why it failed, or nil.
	Part(name string) (done func(error))
	// Upstream begins the time at the upstream, and names itself to it in the header of out (W3C Trace Context).
	Upstream(out *http.Request) (done func(status int, err error))
	// End ends the request's span. It keeps nothing of d.
	End(d *weir.Decision, o weir.Outcome)
}

// The parts of a request's way.
const (
	PartStore      = "store"
	PartInspection = "inspection"
)

// Traced returns s with a store whose time is a part of span.
func (s *Snapshot) Traced(span Span) *Snapshot {
	traced := *s
	traced.Store = tracedStore{s.Store, span}
	return &traced
}

// A tracedStore tells a span how long it took to count.
type tracedStore struct {
	Store
	span Span
}

func (t tracedStore) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	done := t.span.Part(PartStore)
	err := t.Store.Take(ctx, now, hits, out)
	done(err)
	return err
}
