package weir

import "time"

// A Reason says in fixed words why a decision is what it is, so that it may be a metric's label.
type Reason string

const (
	WithinLimits     Reason = "within limits"
	OverLimit        Reason = "over limit"
	ExemptRule       Reason = "exempt rule"
	ExemptAddress    Reason = "exempt address"
	AllowedClient    Reason = "allowed client"
	BannedClient     Reason = "banned client"
	KeyMissing       Reason = "api key missing"
	KeyRefused       Reason = "api key not valid"
	KeyAmbiguous     Reason = "two api keys"
	KeyUnverifiable  Reason = "api keys unavailable"
	ScopeMissing     Reason = "scope missing"
	Preflight        Reason = "cors preflight"
	Disabled         Reason = "disabled"
	ClientUnresolved Reason = "client unresolved"
	AmbiguousPath    Reason = "ambiguous path"
	BadRequest       Reason = "bad request"
	StoreFailed      Reason = "store failed"
	TooManyHeld      Reason = "tarpit full"
	FaultOfOurs      Reason = "fault of weir's"
	// AskedBefore: the request passed within the last 5 seconds, under the same [Request.ID], and was
	// charged then. It passes again, charged nothing.
	AskedBefore Reason = "asked before"

	AttackFound   Reason = "attack found"         // the firewall's rules matched
	Uninspectable Reason = "cannot be inspected"  // a limit or form that the firewall needs is not kept
	NoInspector   Reason = "inspection saturated" // no slot was free in time
	BodyTooLarge  Reason = "body too large"
	BodyTooSlow   Reason = "body too slow"
	BodyBroken    Reason = "body broken" // not framed as it says, or shorter
)

// A Decision is the whole answer to one request. It belongs to whoever asked for it until it is
// recorded, and to nobody afterwards.
type Decision struct {
	Request  Request
	At       time.Time // the one clock reading of the whole decision
	Client   Client
	Ban      *Ban     // that answers the request, or nil; shared, never written to
	Rule     *Rule    // nil where no rule was looked for
	Hits     []Hit    // what was asked of the store
	Statuses []Status // its answer, one per hit
	Action   Action
	Reason   Reason
	HTTP     int  // the HTTP status that the action answers with; 200 when it passes
	Degraded bool // the shared store did not answer; Reason or the statuses say what was done instead

	// Firewall is how the request is to be inspected; nil: not at all. Inspection is what was found.
	Firewall   *Firewall
	Inspection Inspection

	// Deferred are the hits that are charged once the answer's HTTP status is known and is one of
	// OnlyStatuses. Until then they are looks in Hits.
	Deferred     []Hit
	OnlyStatuses []int

	// Keys is the memory that the hits' keys lie in.
	Keys []byte
}

// Reset empties d for another request and keeps its memory.
func (d *Decision) Reset() {
	hits, statuses, deferred, keys, matches := d.Hits[:0], d.Statuses[:0], d.Deferred[:0], d.Keys[:0], d.Inspection.Matches[:0]
	*d = Decision{}
	d.Hits, d.Statuses, d.Deferred, d.Keys, d.Inspection.Matches = hits, statuses, deferred, keys, matches
}

// Refuse makes of d, which passes so far, a rejection that answers with an HTTP status.
func (d *Decision) Refuse(why Reason, status int) { d.Action, d.Reason, d.HTTP = Reject, why, status }

// Refused reports whether the asker gets anything but a pass.
func (d *Decision) Refused() bool { return d.Action != Pass && d.Action != Tag }

// Over reports whether an enforcing limit refused.
func (d *Decision) Over() bool {
	for i := range d.Statuses {
		if s := &d.Statuses[i]; !s.Allowed && s.Limit.Mode == Enforce {
			return true
		}
	}
	return false
}

// RetryAfter is the longest wait that an enforcing limit asks for: 0 if none refused, Never if one
// will not be helped by waiting. A ban asks to wait for its end, and Never if it has none.
func (d *Decision) RetryAfter() time.Duration {
	if d.Ban != nil {
		return d.Ban.left(d.At)
	}
	var wait time.Duration
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Allowed || s.Limit.Mode != Enforce {
			continue
		}
		if s.RetryAfter == Never {
			return Never
		}
		wait = max(wait, s.RetryAfter)
	}
	return wait
}

// Outcome is what became of a request after its decision.
type Outcome struct {
	HTTP     int           // the HTTP status that was sent; 0 if none was
	Duration time.Duration // from the decision to the end of the answer; the engine fills it in
	Upstream time.Duration // spent waiting for the upstream's header; 0 if it was not asked
	Err      error         // why the answer is the proxy's own: the upstream failed or the client went away
}
