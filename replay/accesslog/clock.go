package accesslog

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

var errTime = errors.New("no time that can be read")

// A clock reads times by their shape. Most lines bear the second of the one before, which is not
// computed again.
type clock struct {
	zone *time.Location // of times without one

	base, offset string // what was read last, without its fraction
	seconds      int64
}

// The lengths of a time to the second.
const (
	clfSecond = len("02/Jan/2006:15:04:05")
	isoSecond = len("2006-01-02T15:04:05")
)

// read returns text in Unix nanoseconds. It is 02/Jan/2006:15:04:05, with or without a fraction and a
// zone, a time of RFC 3339, or Unix time in seconds, milli-, micro- or nanoseconds.
func (c *clock) read(text string) (int64, error) {
	switch {
	case len(text) >= clfSecond && text[2] == '/' && text[11] == ':':
		return c.dated(text, clfSecond, civilCLF)
	case len(text) >= isoSecond && text[4] == '-' && text[13] == ':':
		return c.dated(text, isoSecond, civilISO)
	}
	return unixTime(text)
}

// dated reads a time whose first size bytes civil understands.
func (c *clock) dated(text string, size int, civil func(string) (day, bool)) (int64, error) {
	base, rest := text[:size], text[size:]
	nanos, offset, ok := cutFraction(rest)
	if !ok {
		return 0, errTime
	}
	if base != c.base || offset != c.offset {
		d, ok := civil(base)
		if !ok {
			return 0, errTime
		}
		seconds, ok := c.at(d, offset)
		if !ok {
			return 0, errTime
		}
		c.base, c.offset, c.seconds = strings.Clone(base), strings.Clone(offset), seconds
	}
	return c.seconds*int64(time.Second) + nanos, nil
}

// at returns d in Unix seconds.
func (c *clock) at(d day, offset string) (int64, bool) {
	zone := c.zone
	switch offset = strings.TrimPrefix(offset, " "); offset {
	case "":
		if zone == nil {
			zone = time.UTC
		}
		return time.Date(d.year, time.Month(d.month), d.day, d.hour, d.minute, d.second, 0, zone).Unix(), true
	case "Z", "UTC":
		offset = "+0000"
	}
	sign, digits := offset[0], strings.Replace(offset[1:], ":", "", 1)
	if sign != '+' && sign != '-' || len(digits) != 4 {
		return 0, false
	}
	h, ok1 := number(digits[:2], 0, 23)
	m, ok2 := number(digits[2:], 0, 59)
	seconds := time.Date(d.year, time.Month(d.month), d.day, d.hour, d.minute, d.second, 0, time.UTC).Unix()
	if shift := int64(h*3600 + m*60); sign == '+' {
		seconds -= shift
	} else {
		seconds += shift
	}
	return seconds, ok1 && ok2
}

// A day is a date and time without a zone.
type day struct{ year, month, day, hour, minute, second int }

// civilCLF reads 02/Jan/2006:15:04:05.
func civilCLF(s string) (d day, ok bool) {
	if s[6] != '/' || s[14] != ':' || s[17] != ':' {
		return d, false
	}
	at := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s[3:6])
	if at < 0 || at%3 != 0 {
		return d, false
	}
	d.month = at/3 + 1
	return d, fields(s, &d, 7, 0, 12)
}

// civilISO reads 2006-01-02T15:04:05, also with a space in place of the T.
func civilISO(s string) (d day, ok bool) {
	if s[7] != '-' || s[10] != 'T' && s[10] != ' ' || s[16] != ':' {
		return d, false
	}
	if d.month, ok = number(s[5:7], 1, 12); !ok {
		return d, false
	}
	return d, fields(s, &d, 0, 8, 11)
}

// fields reads the numbers of s at these places: the year, the day, and the time of day.
func fields(s string, d *day, year, date, clock int) bool {
	var ok [5]bool
	d.year, ok[0] = number(s[year:year+4], 1970, 2261)
	d.day, ok[1] = number(s[date:date+2], 1, 31)
	d.hour, ok[2] = number(s[clock:clock+2], 0, 23)
	d.minute, ok[3] = number(s[clock+3:clock+5], 0, 59)
	d.second, ok[4] = number(s[clock+6:clock+8], 0, 60)
	return ok == [5]bool{true, true, true, true, true}
}

// number reads digits, and nothing else, as a number from least to most.
func number(s string, least, most int) (int, bool) {
	n := 0
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return n, len(s) > 0 && least <= n && n <= most
}

// cutFraction reads a leading .123 or ,123 as nanoseconds, and returns what follows.
func cutFraction(s string) (nanos int64, rest string, ok bool) {
	if s == "" || s[0] != '.' && s[0] != ',' {
		return 0, s, true
	}
	end := 1
	for end < len(s) && s[end]-'0' <= 9 {
		end++
	}
	return fraction(s[1:end]), s[end:], end > 1
}

// fraction is digits behind a decimal point in units of 10^-9.
func fraction(digits string) int64 {
	n, unit := int64(0), int64(time.Second)
	for i := range min(len(digits), 9) {
		unit /= 10
		n += int64(digits[i]-'0') * unit
	}
	return n
}

// unixTime reads a Unix time; its number of digits tells the unit.
func unixTime(text string) (int64, error) {
	whole, fine, _ := strings.Cut(text, ".")
	if len(whole) > 10 {
		n, err := strconv.ParseInt(whole, 10, 64)
		unit, ok := map[int]time.Duration{13: time.Millisecond, 16: time.Microsecond, 19: 1}[len(whole)]
		if err != nil || n < 0 || !ok {
			return 0, errTime
		}
		return n * int64(unit), nil
	}
	n, err := decimal(whole, fine, time.Second)
	if err != nil || n < 0 || whole == "" {
		return 0, errTime
	}
	return int64(n), nil
}

var errDuration = errors.New("no duration that can be read")

// duration reads a decimal number of units.
func duration(text string, unit time.Duration) (time.Duration, error) {
	whole, fine, _ := strings.Cut(text, ".")
	if d, err := decimal(whole, fine, unit); err == nil {
		return d, nil
	}
	if strings.ContainsAny(text, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		if n := f * float64(unit); err == nil && n >= 0 && n < float64(longest) {
			return time.Duration(n), nil
		}
	}
	return 0, errDuration
}

// longest is the longest duration that is believed.
const longest = 366 * 24 * time.Hour

// decimal returns whole.fine units, at least 0 and with at most nine digits behind the point.
func decimal(whole, fine string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || n > uint64(1<<62)/uint64(unit) || strings.Trim(fine, "0123456789") != "" {
		return 0, errDuration
	}
	return time.Duration(n)*unit + time.Duration(fraction(fine))*unit/time.Second, nil
}
