package weir

import (
	"context"
	"time"
)

// A Hit is one counter to be charged for one request.
type Hit struct {
	Limit *Limit
	// Key is the counter's identity: the client or whatever the limit is counted per, the limit's
	// name, its window and its algorithm, joined so that no value can imitate another tuple. Its
	// first TagLen bytes say what the hit shares a Cluster slot with. The bytes belong to the
	// caller; a store keeps none of them after it returned.
	Key    []byte
	TagLen int
	// N is the cost. A hit that costs 0 is a look: it charges nothing, and its status is allowed if
	// at least 1 would pass.
	N int64
	// Lease identifies the holder of what a Concurrency limit grants. It is unique per request.
	Lease uint64
	// OnFailure is the rule's. A limit for every request follows the rule that the request has.
	OnFailure OnFailure
}

// Never is the RetryAfter of a hit that no waiting lets pass, since its cost is above the limit.
const Never time.Duration = -1

// A Status is a store's answer to one hit.
type Status struct {
	Limit   *Limit
	Allowed bool // this hit alone would pass; it was charged only if every enforcing hit would
	// Remaining is what may be used at once, after this request: never negative, and never more than
	// would pass.
	Remaining int64
	// ResetAfter is the time until the counter is as if it had never been used, if nobody asks.
	ResetAfter time.Duration
	// RetryAfter is 0 if the hit is allowed, Never if no waiting helps, else a promise: waiting as
	// told passes, if nobody else asks. Concurrency says one second.
	RetryAfter time.Duration
	// Degraded is set when the answer did not come from the store that shares the count.
	Degraded bool
}

// A Store counts hits. It is safe for concurrent use.
type Store interface {
	// Take charges all of hits or none: if one that is not a shadow is over its limit, no counter
	// changes. A shadow that is over its limit is not charged, and keeps nothing else from being
	// charged. Take fills out with one Status per hit, in order. An error means that the store could
	// not answer, never "over the limit". A hit that is refused changes nothing, not even an expiry.
	//
	// now is authoritative for a store without a clock of its own, and may go back a little between
	// calls. ctx bounds the wait.
	Take(ctx context.Context, now time.Time, hits []Hit, out []Status) error
}

// A Peeker answers as Take would and charges nothing.
type Peeker interface {
	Peek(ctx context.Context, now time.Time, hits []Hit, out []Status) error
}

// A Releaser gives back what hits on Concurrency limits were granted. Other hits are passed over,
// and a lease that is not held is no error, so that a release may be repeated.
type Releaser interface {
	Release(ctx context.Context, now time.Time, hits []Hit) error
}

// A Resetter forgets the counters of hits, as if they had never been used.
type Resetter interface {
	Reset(ctx context.Context, hits []Hit) error
}
