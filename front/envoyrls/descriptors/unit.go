package descriptors

import (
	"strings"
	"time"

	"github.com/weirgate/weir/config"
)

// A Unit is the length of an aligned window.
type Unit uint8

const (
	NoUnit Unit = iota
	Second
	Minute
	Hour
	Day
	Week
	Month // 30 days
	Year  // 365 days
)

const day = 24 * time.Hour

var units = [...]struct {
	name   string
	window time.Duration
}{
	NoUnit: {"", 0},
	Second: {"second", time.Second},
	Minute: {"minute", time.Minute},
	Hour:   {"hour", time.Hour},
	Day:    {"day", day},
	Week:   {"week", 7 * day},
	Month:  {"month", 30 * day},
	Year:   {"year", 365 * day},
}

// String returns the unit's name as files write it, in lower case.
func (u Unit) String() string { return units[u].name }

// Window returns the unit's length.
func (u Unit) Window() time.Duration { return units[u].window }

// unitNamed returns the unit that text names in any case, or NoUnit.
func unitNamed(text string) Unit {
	for u := Second; u <= Year; u++ {
		if strings.EqualFold(text, units[u].name) {
			return u
		}
	}
	return NoUnit
}

// unitWithin returns the longest unit that is not longer than window, at least Second.
func unitWithin(window time.Duration) Unit {
	u := Second
	for u < Year && units[u+1].window <= window {
		u++
	}
	return u
}

// parseWindow reads an extended unit, a duration in the words of Weir's rates: 10m, 90s, 1h30m.
func parseWindow(text string) (time.Duration, bool) {
	r, err := config.ParseRate("1/" + text)
	return r.Window, err == nil && r.Window > 0
}
