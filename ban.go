package weir

import "time"

// A Ban keeps a client out, whatever its limits have left.
type Ban struct {
	Subject string    // an address, a network in CIDR form, or key:ID of an API key
	Until   time.Time // when it ends; the zero Time: when it is lifted
	Since   time.Time
	Reason  string // in the operator's words, or the penalty's
	Author  string // name of the admin token, or penalty
}

// Holds reports whether b is in force at now.
func (b *Ban) Holds(now time.Time) bool { return b.Until.IsZero() || now.Before(b.Until) }

// left is how long b still holds at now: Never if it ends only when it is lifted.
func (b *Ban) left(now time.Time) time.Duration {
	if b.Until.IsZero() {
		return Never
	}
	return b.Until.Sub(now)
}
