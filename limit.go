package weir

import "time"

// An Algorithm is a way to count. The zero Algorithm is the default.
type Algorithm uint8

const (
	// SlidingWindow weighs the previous window's count by the part of it that is still in sight.
	SlidingWindow Algorithm = iota
	// SlidingLog keeps a time stamp for each hit.
	SlidingLog
	// FixedWindow counts in windows aligned to the Unix epoch.
	FixedWindow
	// TokenBucket is GCRA: a burst at once, then a steady rate.
	TokenBucket
	// Concurrency bounds what is in flight.
	Concurrency
	// Quota counts in calendar periods.
	Quota
)

var algorithmNames = [...]string{"sliding_window", "sliding_log", "fixed_window", "token_bucket", "concurrency", "quota"}

func (a Algorithm) String() string { return algorithmNames[a] }

// A Mode says what a rule or limit may do to a request.
type Mode uint8

const (
	Enforce Mode = iota // refuse what is over the limit
	Shadow              // count it apart and report it, refuse nothing
	Off                 // do not even count
)

var modeNames = [...]string{"enforce", "shadow", "off"}

func (m Mode) String() string { return modeNames[m] }

// A Period is a calendar period of a quota.
type Period uint8

const (
	Day   Period = iota // from midnight to midnight
	Week                // from Monday to Monday
	Month               // from the first to the first
)

var periodNames = [...]string{"day", "week", "month"}

func (p Period) String() string { return periodNames[p] }

// A Limit is how much per how long. It is never changed once it is compiled.
type Limit struct {
	Name      string // unique; what users see
	Rate      string // as users see it: 60/1m, 20 in flight, 1000 per day
	Algorithm Algorithm
	Mode      Mode

	Max    int64         // what passes per window or period, or is in flight at once; 0 lets nothing pass
	Burst  int64         // TokenBucket: what passes at once from a full bucket; at least 1 unless Max is 0
	Window time.Duration // all but Concurrency and Quota

	Period   Period         // Quota
	Location *time.Location // Quota: where the day begins; nil is UTC
}

// Capacity is the most that can pass at one moment.
func (l *Limit) Capacity() int64 {
	if l.Algorithm == TokenBucket {
		return l.Burst
	}
	return l.Max
}
