package weir

import "time"

// A Firewall is how the requests under a rule are inspected.
type Firewall struct {
	Mode Mode // Enforce blocks, Shadow reports what would be blocked
	// Set is which of the configuration's firewalls inspects.
	Set int
	// Streams says that bodies go past the firewall, which then sees the URL and the header.
	Streams bool
	// MaxBody is the longest body that is inspected, in bytes.
	MaxBody int64
}

// A Pace is how slowly the body of an admitted request may come. The zero Pace bounds nothing.
type Pace struct {
	// Timeout is how long an inspected body may take as a whole, and any other may pause.
	Timeout time.Duration
	MinRate int64 // bytes per second on average, once it has had its time to begin
}

// A Verdict is what an inspection came to.
type Verdict uint8

const (
	// Uninspected: nobody asked the firewall.
	Uninspected Verdict = iota
	// Clean: inspected, and below the threshold.
	Clean
	// Detected: would be blocked, but is only reported.
	Detected
	// Blocked: refused, as [Decision.HTTP] says.
	Blocked
	// Plain: every byte is of a kind that no rule matches, so none was run.
	Plain
	// FailedOpen: passes uninspected, for a fault of ours or for want of a slot.
	FailedOpen
)

var verdictNames = [...]string{"off", "pass", "detect", "block", "skip", "fail_open"}

func (v Verdict) String() string { return verdictNames[v] }

// Verdicts returns every verdict's name, in order.
func Verdicts() []string { return verdictNames[:] }

// An Inspection is what the firewall found about one request. The zero Inspection is that nobody asked.
type Inspection struct {
	Verdict   Verdict
	HTTP      int    // the status of a Blocked: 403 for an attack, else the refusal's
	Ruleset   string // fast or crs
	Inspected string // url+headers+body or url+headers
	Score     int
	Threshold int           // the score at which a request is refused, where it was reached
	Matches   []Match       // at most the first 32; Score is of all
	Took      time.Duration // with the wait for a place
	// Refused names the limit or form that the request does not keep, or is empty; Detail says more, without
	// a piece of the request.
	Refused, Detail string
	// Fault is why there is no verdict on what the request says: panic or saturated. Trace are the frames of
	// the panic.
	Fault, Trace string
	// Incident names this one finding to asker and operator. It is empty unless something was found.
	Incident string
}

// Found reports whether the request was blocked, or would have been, for what it says.
func (i *Inspection) Found() bool {
	return i.Fault == "" && (i.Verdict == Blocked || i.Verdict == Detected)
}

// A Match is one rule of the firewall that matched, without a secret in it.
type Match struct {
	Rule     string `json:"rule"` // the rule's id
	Class    string `json:"class"`
	Location string `json:"location"` // the part of the request: path, query, header, json …
	Name     string `json:"name"`     // what the asker called the parameter, masked
	Fragment string `json:"fragment"` // at most 64 bytes of what matched, masked
	Score    int    `json:"score"`
	Shadow   bool   `json:"shadow"` // an exclusion on trial would have released it
}
