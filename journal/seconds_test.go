package journal

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// The series has a point for every second that is over, also for those without a request.
func TestSeries(t *testing.T) {
	j, c, record := playing(Options{})
	record(2, passed(search))
	record(1, refused(search, weir.Reject))
	c.now = noon.Add(2 * time.Second)
	record(4, passed(search)) // not over
	got := j.Series(3)
	for i := range got {
		got[i].P50, got[i].P95, got[i].P99 = nil, nil, nil
	}
	want := []Point{{Time: noon.Add(-time.Second)}, {Time: noon, Requests: 3, Refused: 1}, {Time: noon.Add(time.Second)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	c.now = noon.Add(keptSeconds * time.Second)
	if got := j.Series(10_000); len(got) != keptSeconds-1 || got[0].Time != noon.Add(time.Second) || got[1].Requests != 4 {
		t.Errorf("%d points from %s, %+v second", len(got), got[0].Time, got[1])
	}
	if got := j.Series(-1); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// Latencies are told to a tenth.
func TestQuantiles(t *testing.T) {
	j, c, _ := playing(Options{})
	for i := range 1000 {
		d := passed(search)
		d.At = noon
		j.Record(d, weir.Outcome{HTTP: 200, Duration: time.Duration(i+1) * 900 * time.Microsecond})
	}
	c.now = noon.Add(time.Second)
	p := j.Series(1)[0]
	for want, got := range map[float64]*float64{.45: p.P50, .855: p.P95, .891: p.P99} {
		if got == nil || math.Abs(*got-want) > want/9 {
			t.Errorf("got %v, want %v within a tenth", got, want)
		}
	}
}

// Every duration has its bucket, and the buckets are in order.
func TestLatencyBuckets(t *testing.T) {
	last := 0
	for d := time.Microsecond; d < 10*time.Minute; d += d/50 + 1 {
		i := latencyBucket(d)
		if i < last || i >= latencies {
			t.Fatalf("%s is in bucket %d after %d", d, i, last)
		}
		last = i
		if middle := bucketMiddle(i); d > 20*time.Microsecond && i < latencies-1 && math.Abs(middle-d.Seconds()) > d.Seconds()/8 {
			t.Fatalf("%s is in the bucket of %v s", d, middle)
		}
	}
	if latencyBucket(-1) != 0 || latencyBucket(math.MaxInt64) != latencies-1 {
		t.Error("the ends have no bucket")
	}
}

// What opened the breaker is known at once, and what is behind it when somebody found out. A change is noted once,
// whoever sees it first.
func TestBreakerHistorySaysWhy(t *testing.T) {
	open, second := false, 0
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	j := New(Options{Now: func() time.Time { return at(second) }, Gauges: Gauges{BreakerOpen: func() bool { return open }}})
	change := func(is bool, kind, cause string) {
		second, open = second+1, is
		j.BreakerChanged(kind, cause)
		j.breaker.look(j.now())
	}
	change(true, "timeout", "no answer in time")
	change(true, "error", "LOADING")
	change(false, "", "")
	open = true
	j.breaker.look(at(4)) // the look was first
	change(true, "error", strings.Repeat("é", mostCause))
	change(true, "", "") // one of two stores answers again
	want := []BreakerChange{
		{at(4), true, "error", strings.Repeat("é", mostCause/2)}, {at(3), false, "", ""}, {at(1), true, "error", "LOADING"},
	}
	if diff := cmp.Diff(want, j.BreakerHistory()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if j = New(Options{}); len(j.BreakerHistory()) != 0 {
		t.Error("a change without a breaker")
	}
	j.BreakerChanged("error", "x")
	if n := len(j.BreakerHistory()); n != 0 {
		t.Errorf("%d changes without a breaker", n)
	}
}

func TestBreakerHistory(t *testing.T) {
	open := false
	j := New(Options{Gauges: Gauges{BreakerOpen: func() bool { return open }}})
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for s, is := range []bool{false, true, true, false, true} {
		open = is
		j.breaker.look(at(s))
	}
	want := []BreakerChange{{Time: at(4), Open: true}, {Time: at(3)}, {Time: at(1), Open: true}}
	if diff := cmp.Diff(want, j.BreakerHistory()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for s := range 3 * mostChanges {
		open = !open
		j.breaker.look(at(s))
	}
	if n := len(j.BreakerHistory()); n != mostChanges {
		t.Errorf("%d changes are kept, want %d", n, mostChanges)
	}
	if n := len(New(Options{}).BreakerHistory()); n != 0 {
		t.Errorf("%d changes without a breaker", n)
	}
}

// Who follows refusals gets each once, the newest where there are too many.
func TestRefusedAfter(t *testing.T) {
	j, _, record := playing(Options{Recent: 10})
	if got, newest := j.RefusedAfter(0, 5); len(got) != 0 || newest != 0 {
		t.Errorf("%v, %d of nothing", got, newest)
	}
	record(2, passed(search))
	record(3, from(refused(search, weir.Reject), "203.0.113.7"))
	got, newest := j.RefusedAfter(0, 2)
	if len(got) != 2 || newest != 5 {
		t.Errorf("%d refusals up to %d, want 2 up to 5", len(got), newest)
	}
	record(1, from(refused(search, weir.Drop), "198.51.100.1"))
	got, newest = j.RefusedAfter(newest, 5)
	if len(got) != 1 || got[0].Client != "198.51.100.1/32" || newest != 6 {
		t.Errorf("%+v up to %d", got, newest)
	}
	record(30, refused(search, weir.Reject))
	if got, newest = j.RefusedAfter(newest, 100); len(got) != 10 || newest != 36 {
		t.Errorf("%d refusals up to %d, want what the ring keeps", len(got), newest)
	}
}
