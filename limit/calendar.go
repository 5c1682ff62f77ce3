package limit

import (
	"time"

	"github.com/weirgate/weir"
)

// Bounds returns where the calendar period that holds now begins and ends, and where the one after
// it ends, in Unix nanoseconds. A day begins at the first instant that bears its date in l.Location,
// so periods follow one another without gap or overlap, whatever clocks do at midnight.
func Bounds(l *weir.Limit, now int64) (start, end, next int64) {
	start, end = period(l, now)
	_, next = period(l, end)
	return start, end, next
}

// period returns where the period that holds now begins and ends.
func period(l *weir.Limit, now int64) (start, end int64) {
	d := firstDay(l, now)
	start, end = Nanos(dawn(d)), Nanos(dawn(following(l.Period, d)))
	if end <= now { // clocks went back over midnight: the day that has begun goes on
		d = following(l.Period, d)
		start, end = end, Nanos(dawn(following(l.Period, d)))
	}
	return start, end
}

// A date is a day in a place.
type date struct {
	year  int
	month time.Month
	day   int
	in    *time.Location
}

// firstDay is the day on which the period that holds now begins.
func firstDay(l *weir.Limit, now int64) date {
	in := l.Location
	if in == nil {
		in = time.UTC
	}
	t := time.Unix(0, now).In(in)
	d := date{in: in}
	d.year, d.month, d.day = t.Date()
	switch l.Period {
	case weir.Week:
		const monday = 6 // days that Sunday, day 0, is after Monday
		d.day -= (int(t.Weekday()) + monday) % 7
	case weir.Month:
		d.day = 1
	}
	return d
}

// following is the first day of the period after the one that begins on d.
func following(p weir.Period, d date) date {
	switch p {
	case weir.Week:
		d.day += 7
	case weir.Month:
		d.month++
	default:
		d.day++
	}
	return d
}

// dawn returns the first instant of d. Where clocks skip midnight that is when they do; where they
// pass it twice it is the first time.
func dawn(d date) time.Time {
	t := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, d.in)
	if d.in == time.UTC {
		return t
	}
	from, until := t.ZoneBounds()
	if d.after(t) {
		return until
	}
	if from.IsZero() || from.Before(t.Add(-24*time.Hour)) {
		return t
	}
	before := from.Add(-1)
	if d.after(before) {
		if !d.after(from) {
			return from
		}
		return t
	}
	_, was := before.Zone()
	_, is := t.Zone()
	return t.Add(-time.Duration(was-is) * time.Second)
}

// after reports whether d is later than the date that t bears.
func (d date) after(t time.Time) bool {
	y, m, day := t.In(d.in).Date()
	// As UTC both normalise alike: d may be a 32nd or a 0th.
	return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).
		After(time.Date(y, m, day, 0, 0, 0, 0, time.UTC))
}
