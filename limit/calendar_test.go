package limit

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	in, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		period                weir.Period
		zone                  string
		now, start, end, next string // local, but for the offset
	}{
		{weir.Day, "UTC", "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z", "2028-03-02T00:00:00Z"},
		{weir.Month, "UTC", "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", "2028-04-01T00:00:00Z"},
		{weir.Month, "UTC", "2027-01-31T23:59:59Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{weir.Month, "UTC", "2027-12-01T00:00:00Z", "2027-12-01T00:00:00Z", "2028-01-01T00:00:00Z", "2028-02-01T00:00:00Z"},
		// Weeks begin on Monday: 2027-01-03 is a Sunday, 2027-01-04 a Monday.
		{weir.Week, "UTC", "2027-01-03T23:59:59Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z", "2027-01-11T00:00:00Z"},
		{weir.Week, "UTC", "2027-01-04T00:00:00Z", "2027-01-04T00:00:00Z", "2027-01-11T00:00:00Z", "2027-01-18T00:00:00Z"},
		// A day of 23 hours and one of 25.
		{weir.Day, "Europe/Berlin", "2027-03-28T12:00:00+02:00", "2027-03-28T00:00:00+01:00", "2027-03-29T00:00:00+02:00", "2027-03-30T00:00:00+02:00"},
		{weir.Day, "Europe/Berlin", "2027-10-31T12:00:00+01:00", "2027-10-31T00:00:00+02:00", "2027-11-01T00:00:00+01:00", "2027-11-02T00:00:00+01:00"},
		// A day without midnight, one with two, and one that never was.
		{weir.Day, "America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"},
		{weir.Day, "America/Havana", "2027-11-07T00:30:00-05:00", "2027-11-07T00:00:00-04:00", "2027-11-08T00:00:00-05:00", "2027-11-09T00:00:00-05:00"},
		{weir.Day, "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{weir.Day, "Asia/Kathmandu", "2027-05-05T00:00:00+05:45", "2027-05-05T00:00:00+05:45", "2027-05-06T00:00:00+05:45", "2027-05-07T00:00:00+05:45"},
	} {
		l := &weir.Limit{Algorithm: weir.Quota, Period: c.period, Location: zone(t, c.zone)}
		start, end, next := Bounds(l, nanos(t, c.now))
		got := [3]string{show(l, start), show(l, end), show(l, next)}
		if want := [3]string{c.start, c.end, c.next}; got != want {
			t.Errorf("%v in %s at %s:\n got %v\nwant %v", c.period, c.zone, c.now, got, want)
		}
	}
}

func nanos(t *testing.T, s string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixNano()
}

func show(l *weir.Limit, at int64) string {
	return time.Unix(0, at).In(l.Location).Format(time.RFC3339)
}

// A day begins at the first half hour that bears its date, in every zone with a rule that
// is hard: found by walking, for the years in which clocks moved at midnight.
func TestDaysFollowOneAnother(t *testing.T) {
	racing.Skip(t)
	for _, name := range []string{
		"America/Sao_Paulo", "America/Havana", "America/Asuncion", "America/Scoresbysund", "America/St_Johns", "Asia/Beirut",
		"Asia/Amman", "Asia/Gaza", "Pacific/Apia", "Atlantic/Azores", "Africa/Cairo", "Australia/Lord_Howe", "Europe/Berlin",
	} {
		l := &weir.Limit{Algorithm: weir.Quota, Location: zone(t, name)}
		from := time.Date(2006, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()
		begin, newest := int64(0), ""
		for at := from; at < from+int64(6*year); at += int64(30 * time.Minute) {
			if date := time.Unix(0, at).In(l.Location).Format(time.DateOnly); date > newest {
				begin, newest = at, date
			}
			start, end := period(l, at)
			if at-from > int64(2*day) && start != begin || end <= at {
				t.Fatalf("%s at %s: the day is %s to %s, want it to begin at %s", name, show(l, at), show(l, start), show(l, end), show(l, begin))
			}
		}
	}
}

func TestQuota(t *testing.T) {
	at := func(s string) time.Duration { return time.Duration(nanos(t, s)) }
	// CNT-16: a day's quota is not back within milliseconds.
	run(t, &weir.Limit{Algorithm: weir.Quota, Max: 5}, []step{
		{at("2027-05-05T12:00:00Z"), 5, true, 0, 0},
		{at("2027-05-05T12:00:00.05Z"), 1, false, 0, 12*time.Hour - 50*ms},
		{at("2027-05-05T12:00:01Z"), 1, false, 0, 12*time.Hour - sec},
		{at("2027-05-06T00:00:00Z"), 1, true, 4, 0},
	})
	// CNT-30: months are months.
	run(t, &weir.Limit{Algorithm: weir.Quota, Max: 100, Period: weir.Month}, []step{
		{at("2027-01-31T23:59:59Z"), 100, true, 0, 0},
		{at("2027-01-31T23:59:59Z"), 1, false, 0, sec},
		{at("2027-02-01T00:00:00Z"), 1, true, 99, 0},
		{at("2027-02-28T23:59:00Z"), 99, true, 0, 0},
		{at("2027-02-28T23:59:00Z"), 1, false, 0, time.Minute},
		{at("2027-03-01T00:00:00Z"), 1, true, 99, 0},
		{at("2027-03-31T00:00:00Z"), 99, true, 0, 0},
		{at("2027-03-31T23:59:59Z"), 1, false, 0, sec},
	})
}

// CNT-32: count, remaining and reset belong to one period, to the nanosecond before and at its end.
func TestQuotaAtMidnight(t *testing.T) {
	l := &weir.Limit{Algorithm: weir.Quota, Max: 5, Period: weir.Month}
	a, midnight := &asker{l: l}, nanos(t, "2027-04-01T00:00:00Z")
	a.take(midnight-int64(sec), 4)
	for _, c := range []struct {
		at   int64
		want weir.Status
	}{
		{midnight - 1, weir.Status{Limit: l, Allowed: true, Remaining: 0, ResetAfter: 1}},
		{midnight, weir.Status{Limit: l, Allowed: true, Remaining: 4, ResetAfter: 30 * day}},
	} {
		if got := a.take(c.at, 1); got != c.want {
			t.Errorf("at midnight %+d:\n got %+v\nwant %+v", c.at-midnight, got, c.want)
		}
	}
}
