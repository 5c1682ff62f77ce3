package weir

import "time"

// An Action is what the asker gets.
type Action uint8

const (
	// Pass lets the request through.
	Pass Action = iota
	// Reject answers at once with the reason.
	Reject
	// Drop closes without an answer.
	Drop
	// Tarpit answers late, for a bounded number of askers at once.
	Tarpit
	// Tag lets the request through with a header that tells the upstream.
	Tag
)

var actionNames = [...]string{"pass", "reject", "drop", "tarpit", "tag"}

func (a Action) String() string { return actionNames[a] }

// An OnFailure says what becomes of a hit that the shared store cannot count.
type OnFailure uint8

const (
	// FailLocal counts it in this process, against this replica's share of the limit.
	FailLocal OnFailure = iota
	// FailAllow lets it pass uncounted.
	FailAllow
	// FailDeny refuses the request.
	FailDeny
)

var onFailureNames = [...]string{"local", "allow", "deny"}

func (f OnFailure) String() string { return onFailureNames[f] }

// A Rule is where limits apply and what follows. It is never changed once it is compiled.
type Rule struct {
	Name string

	// Host, Path and Method are the pattern as users see it; "*" where any will do.
	Host, Path, Method string

	RequireKey bool     // only requests with a verified API key or token pass
	Scopes     []string // all of which that key must have

	Exempt bool   // skip counting and the limits for every request
	Mode   Mode   // of all the rule's limits
	Action Action // what follows a refusal: Reject, Drop, Tarpit or Tag

	OnFailure OnFailure // what follows where the store cannot count

	TagHeader string // the request header that Tag sets
	Tarpit    TarpitBounds
	MaxBody   int64 // bytes; 0 is no bound
	Pace      Pace  // of request bodies
	Firewall  Firewall
}

// TarpitBounds are how long and how many askers a tarpit holds. Past them it rejects at once.
type TarpitBounds struct {
	Delay            time.Duration
	MaxHeld          int
	MaxHeldPerClient int
}
