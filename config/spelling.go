package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Duration is written with units: 90s, 1m30s, 1d.
type Duration time.Duration

// A Size is a number of bytes, written with a unit: 64KiB, 1MiB.
type Size int64

// A ByteRate is bytes per second, written 500B/s.
type ByteRate int64

// A Multiple is written 4x.
type Multiple int64

// A List is one value or a list of them.
type List []string

// A Rate is N per time: 60/1m, 1000 per day, 5/s.
type Rate struct {
	N      int64
	Window time.Duration // 0 if Unit is month
	// Unit is the word that stood for the window, such as day, or empty. In a quota it is a calendar period.
	Unit string
	// Text is the rate as written.
	Text string
}

const (
	day = 24 * time.Hour

	maxDuration = 366 * day
	maxCount    = 1<<32 - 1 // of a rate, a burst, a cost and what is in flight
	maxSize     = 1 << 40
	maxMultiple = 1_000_000
)

// A spelling is a text that is not what its field wants.
type spelling struct {
	found string
	want  string
}

func (s *spelling) Error() string { return s.found + ": " + s.want }

// misspelt returns the problem of a text that came from outside, cut to a readable length.
func misspelt(text, want string) error { return &spelling{shown(text), want} }

// shown returns text as a message may quote it: on one line, and at most 64 bytes of it.
func shown(text string) string {
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:61], "") + "..."
	}
	if q := strconv.Quote(text); text == "" || q != `"`+text+`"` || strings.TrimSpace(text) != text {
		return q
	}
	return text
}

type unit struct {
	name string
	size int64
}

// The units of time, from wide to narrow, which is the order that a duration names them in.
var timeUnits = [...]unit{{"d", int64(day)}, {"h", int64(time.Hour)}, {"m", int64(time.Minute)}, {"s", int64(time.Second)}, {"ms", int64(time.Millisecond)}}

// The words that stand for a window. A month has no length of its own.
var timeWords = [...]unit{{"second", int64(time.Second)}, {"minute", int64(time.Minute)}, {"hour", int64(time.Hour)}, {"day", int64(day)}, {"week", int64(7 * day)}, {"month", 0}}

// usualUnits are how other programs write units of time, and how we do.
var usualUnits = [...]struct{ theirs, ours string }{
	{"s", "s"}, {"sec", "s"}, {"second", "s"}, {"m", "m"}, {"min", "m"}, {"minute", "m"}, {"h", "h"}, {"hr", "h"}, {"hour", "h"}, {"d", "d"}, {"day", "d"},
}

// usualUnit returns the unit that text probably means, or nothing.
func usualUnit(text string) string {
	text = strings.ToLower(text)
	for _, u := range usualUnits {
		if text == u.theirs || text == u.theirs+"s" && text != "ms" {
			return u.ours
		}
	}
	return ""
}

var sizeUnits = [...]unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func find(units []unit, name string) (unit, bool) {
	for _, u := range units {
		if u.name == name {
			return u, true
		}
	}
	return unit{}, false
}

// cutDigits splits s behind its leading digits.
func cutDigits(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// parseCount reads a plain whole number from 0 to most. The second value says what is wrong, or is
// empty.
func parseCount(s string, most int64) (int64, string) {
	digits, rest := cutDigits(s)
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, "want 0 or more"
	case digits == "" || rest != "":
		return 0, "want a whole number in plain digits"
	case len(digits) > 1 && digits[0] == '0':
		return 0, "want a number without leading zeros"
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > most {
		return 0, fmt.Sprintf("want at most %d", most)
	}
	return n, ""
}

// ParseDuration reads a duration: whole numbers with the units d h m s ms, from wide to narrow. A d
// is 24 hours. The most is 366d.
func ParseDuration(text string) (Duration, error) {
	d, want := parseDuration(text)
	if want != "" {
		return 0, misspelt(text, want)
	}
	return Duration(d), nil
}

func parseDuration(text string) (total time.Duration, want string) {
	if text == "" {
		return 0, "want a duration, as in 90s or 1m30s"
	}
	units := timeUnits[:]
	for rest := text; rest != ""; {
		var digits string
		digits, rest = cutDigits(rest)
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))]
		rest = rest[len(name):]
		u, ok := find(units, name)
		if digits == "" || !ok {
			return 0, wantDuration(text, digits, name, rest)
		}
		n, want := parseCount(digits, int64(maxDuration)/u.size)
		if want == "" && time.Duration(n*u.size) > maxDuration-total {
			want = "want at most 366d"
		}
		if want != "" {
			return 0, strings.Replace(want, fmt.Sprint(int64(maxDuration)/u.size), "366d", 1)
		}
		total += time.Duration(n * u.size)
		for units[0].name != name {
			units = units[1:]
		}
		units = units[1:]
	}
	return total, ""
}

// wantDuration says what to write in place of text, whose reading ended at digits and name.
func wantDuration(text, digits, name, rest string) string {
	_, known := find(timeUnits[:], name)
	unit := strings.TrimSpace(name + rest)
	usual := usualUnit(unit)
	switch {
	case strings.HasPrefix(text, "-"):
		return "want a time that is not negative"
	case strings.HasPrefix(rest, ".") || strings.HasPrefix(name+rest, "."):
		return "want whole numbers, as in 1500ms for 1.5s"
	case digits == text:
		return "want a unit, as in " + digits + "s"
	case digits == "":
		return "want a duration, as in 90s or 1m30s"
	case usual != "" && usual != unit:
		return "want " + digits + usual + " for " + digits + name + rest
	case name == "":
		return "want a unit behind " + digits + ", as in " + digits + "s"
	case known:
		return "want each unit once, from wide to narrow, as in 1d2h3m4s"
	}
	return "want one of the units d h m s ms, as in 90s or 1m30s"
}

// String returns the duration as ParseDuration reads it; what is narrower than a millisecond is left
// out.
func (d Duration) String() string {
	var b strings.Builder
	rest := int64(d)
	for _, u := range timeUnits {
		if n := rest / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.size
		}
	}
	return cmp.Or(b.String(), "0s")
}

// MarshalText returns the duration as written in the file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration as written in the file.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}

// ParseSize reads a size: a whole number of B, KiB, MiB, GiB or TiB, or of bytes if it has no unit.
// The most is 1TiB.
func ParseSize(text string) (Size, error) {
	digits, name := cutDigits(text)
	u, ok := find(sizeUnits[:], cmp.Or(name, "B"))
	if digits == "" || !ok {
		return 0, misspelt(text, "want a size in B, KiB, MiB, GiB or TiB, as in 64KiB")
	}
	n, want := parseCount(digits, maxSize)
	if want == "" && n > maxSize/u.size {
		want = "want at most 1TiB"
	}
	if want != "" {
		return 0, misspelt(text, want)
	}
	return Size(n * u.size), nil
}

// String returns the size in the widest unit that is exact.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if n := int64(s); n != 0 && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return "0B"
}

// MarshalText returns the size as written in the file.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a size as written in the file.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// ParseByteRate reads bytes per second: a size with a unit, and /s.
func ParseByteRate(text string) (ByteRate, error) {
	size, ok := strings.CutSuffix(text, "/s")
	if !ok || !strings.HasSuffix(size, "B") {
		return 0, misspelt(text, "want bytes per second, as in 500B/s or 2KiB/s")
	}
	n, err := ParseSize(size)
	if err != nil {
		return 0, misspelt(text, err.(*spelling).want+", with /s")
	}
	return ByteRate(n), nil
}

func (r ByteRate) String() string { return Size(r).String() + "/s" }

// MarshalText returns the rate as written in the file.
func (r ByteRate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads bytes per second as written in the file.
func (r *ByteRate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseByteRate(string(text))
	return err
}

// ParseMultiple reads how many times: 4x. The least is 1x.
func ParseMultiple(text string) (Multiple, error) {
	digits, rest := cutDigits(text)
	n, want := parseCount(digits, maxMultiple)
	switch {
	case digits == "" || rest != "x":
		want = "want how many times, as in 4x"
	case want == "" && n == 0:
		want = "want at least 1x"
	}
	if want != "" {
		return 0, misspelt(text, want)
	}
	return Multiple(n), nil
}

func (m Multiple) String() string { return fmt.Sprintf("%dx", int64(m)) }

// MarshalText returns the multiple as written in the file.
func (m Multiple) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a multiple as written in the file.
func (m *Multiple) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMultiple(string(text))
	return err
}
