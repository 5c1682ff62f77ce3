package replay

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/replay/accesslog"
	"github.com/weirgate/weir/store/memory"
)

// What was asked per counter and window is what a map of both would count, through sweeps and growth, and
// whether a window goes by the epoch or by a calendar.
func TestDemandEqualsAMap(t *testing.T) {
	limits := []*weir.Limit{
		{Algorithm: weir.SlidingWindow, Max: 5, Window: 10 * time.Second},
		{Algorithm: weir.FixedWindow, Max: 5, Window: time.Hour},
		{Algorithm: weir.Quota, Max: 5, Period: weir.Day, Location: time.UTC},
	}
	windows := []time.Duration{10 * time.Second, time.Hour, 24 * time.Hour}
	for i, l := range limits {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		u := &use{limit: l, counters: table{most: 1}}
		type counter struct{ hash, window uint64 }
		want := map[counter]uint64{}
		at := int64(1_700_000_000) * int64(time.Second)
		for range 60_000 {
			at += r.Int64N(int64(windows[i]) / 500)
			hash, n := r.Uint64N(3000)*0x9e3779b97f4a7c15|1, 1+r.Int64N(3)
			u.ask(hash, at, n, 0)
			want[counter{hash, uint64(at / int64(windows[i]))}] += uint64(n)
		}
		u.finish()
		var model histogram
		for _, n := range want {
			model.add(n)
		}
		if diff := cmp.Diff(model.counts, u.demand.counts); diff != "" || u.demand.values != model.values || u.asked != 60_000 {
			t.Errorf("%s: %d windows, want %d (-want +got):\n%s", l.Algorithm, u.demand.values, model.values, diff)
		}
	}
}

// decideOne decides one request, at a time in seconds.
func decideOne(t *testing.T, s *side, client, path string, status int, at int64) Verdict {
	t.Helper()
	l := accesslog.Line{At: at * int64(time.Second), Took: accesslog.Unknown, Client: netip.MustParseAddr(client), Method: "GET", Path: path, Status: status}
	return s.decide(weir.Request{Front: "replay", Peer: l.Client, Method: "GET", Path: path}, &l)
}

func newTestSide(t *testing.T, yaml string) *side {
	t.Helper()
	s := newSide(Policy{Name: "test", Policy: compile(t, yaml)}, &accesslog.Has{Status: true}, newTally(maphash.MakeSeed()))
	t.Cleanup(s.close)
	return s
}

// Path groups, hours and names are bounded; what goes beyond is counted with others, and no sum is short.
func TestBoundedLists(t *testing.T) {
	s := newTestSide(t, "default: {limits: []}")
	const requests = mostPaths + 500
	for i := range requests {
		word := strings.Map(func(digit rune) rune { return digit - '0' + 'g' }, strconv.Itoa(i))
		decideOne(t, s, "10.0.0.1", "/"+word, 200, int64(i))
	}
	report := s.report()
	all := int64(0)
	for _, c := range s.tally.paths {
		all += c.Requests
	}
	if others := s.tally.paths[others]; len(s.tally.paths) != mostPaths+1 || others == nil || others.Requests != 500 || all != requests {
		t.Errorf("%d groups, %+v of others, %d requests in all", len(s.tally.paths), others, all)
	}
	if len(report.Paths) != listed || report.Requests != requests {
		t.Errorf("%d groups are listed, of %d requests", len(report.Paths), report.Requests)
	}
	for hour := range int64(mostHours + 10) {
		s.tally.ofHour((hour + 10) * int64(time.Hour)).add(Admitted)
	}
	if len(s.tally.hours) != mostHours {
		t.Errorf("%d hours", len(s.tally.hours))
	}
}

// A client's record of good answers ends with the first refusal.
func TestGoodBeforeTheFirstRefusal(t *testing.T) {
	s := newTestSide(t, "rules: [{name: a, path: /a, limits: [{rate: 1/1h}]}]\ndefault: {limits: []}")
	steps := []struct {
		path   string
		status int
		want   Verdict
	}{{"/", 200, Admitted}, {"/", 304, Admitted}, {"/", 399, Admitted}, {"/", 400, Admitted}, {"/a", 199, Admitted}, {"/a", 200, Refused}, {"/", 200, Admitted}, {"/a", 200, Refused}}
	for i, st := range steps {
		if got := decideOne(t, s, "10.0.0.1", st.path, st.status, int64(1000+i)); got != st.want {
			t.Errorf("step %d: %d, want %d", i, got, st.want)
		}
	}
	list := s.report().Clients.List
	if len(list) != 1 || list[0].Before != 5 || list[0].Good != 3 || list[0].Refused != 2 || list[0].First.Unix() != 1005 {
		t.Errorf("%+v", list)
	}
}

// A limit that no waiting helps locks out until somebody is let through.
func TestLockouts(t *testing.T) {
	for _, tt := range []struct {
		h    hurt
		want time.Duration
	}{
		{hurt{from: 10, until: 25}, 15},
		{hurt{from: 10, until: 25, longest: 20}, 20},
		{hurt{longest: 20}, 20},
	} {
		if got := tt.h.lockout(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.h, got, tt.want)
		}
	}
}

// A partial store leaves out what it must, and counts the rest as a whole one.
func TestPartial(t *testing.T) {
	whole := memory.New(memory.Options{})
	defer whole.Close()
	kept := &weir.Limit{Name: "kept", Max: 1, Window: time.Minute}
	left := &weir.Limit{Name: "left", Max: 0, Window: time.Minute}
	p := &partial{whole, map[*weir.Limit]bool{left: true}}
	hits := []weir.Hit{{Limit: left, Key: []byte("l"), N: 1}, {Limit: kept, Key: []byte("k"), N: 1}, {Limit: left, Key: []byte("m"), N: 1}}
	for i, want := range []bool{true, false} {
		out := make([]weir.Status, len(hits))
		if err := p.Take(context.Background(), time.Unix(1000, 0), hits, out); err != nil {
			t.Fatal(err)
		}
		got := []bool{out[0].Allowed, out[1].Allowed, out[2].Allowed}
		if !slices.Equal(got, []bool{true, want, true}) || out[1].Limit != kept || out[2].Limit != left {
			t.Errorf("take %d: %v", i, got)
		}
	}
	only := hits[1:2]
	if err := p.Take(context.Background(), time.Unix(1000, 0), only, make([]weir.Status, 1)); err != nil || whole.Keys() != 1 {
		t.Errorf("%v, %d keys", err, whole.Keys())
	}
}

// A request under way holds its place until its end; of too many, those that end first end early.
func TestUnderWayIsBounded(t *testing.T) {
	racing.Skip(t)
	s := newSide(Policy{Policy: compile(t, "default: {limits: [{in_flight: 100000000}]}")}, &accesslog.Has{Duration: true, Status: true}, newTally(maphash.MakeSeed()))
	t.Cleanup(s.close)
	client := netip.MustParseAddr("10.0.0.1")
	for i := range mostHeld + 100 {
		l := accesslog.Line{At: int64(i), Took: time.Hour, Client: client, Method: "GET", Path: "/"}
		s.decide(weir.Request{Peer: l.Client, Method: "GET", Path: "/"}, &l)
	}
	if len(s.held) > mostHeld {
		t.Errorf("%d are held", len(s.held))
	}
	if peak := s.report().Limits[0].Peak; peak != mostHeld {
		t.Errorf("peak %d, want %d", peak, mostHeld)
	}
	if len(s.held) != 0 || s.store.Keys() != 0 {
		t.Errorf("%d are held at the end, %d keys", len(s.held), s.store.Keys())
	}
}

// Many hours share bars, without a request lost; one hour is one bar.
func TestPlotOfHours(t *testing.T) {
	var list []Hour
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		if i%7 != 3 {
			list = append(list, Hour{start.Add(time.Duration(i) * time.Hour), Counts{10, 3, 2}})
		}
	}
	p := plotHours(list)
	if len(p.Bars) > mostBars || p.Each != "3 h" || p.Most != 30 {
		t.Errorf("%d bars of %s, at most %d", len(p.Bars), p.Each, p.Most)
	}
	sum := int64(0)
	for _, h := range merge(list, 3*time.Hour) {
		sum += h.Requests
	}
	if sum != int64(10*len(list)) {
		t.Errorf("%d requests in the bars, want %d", sum, 10*len(list))
	}
	for _, b := range p.Bars {
		if b.X < hoursLeft || b.X+b.Width > hoursRight+1 || b.RefuseY < hoursTop-1 || fmt.Sprintf("%.1f", b.PassY+b.Pass) != "190.0" {
			t.Errorf("a bar is off the plot: %+v", b)
		}
	}
	if one := plotHours(list[:1]); len(one.Bars) != 1 || plotHours(nil) != nil {
		t.Errorf("one hour has %d bars", len(one.Bars))
	}
}

// The curve goes from the top left to the floor, and shows the limit in force where it is a candidate.
func TestPlotOfACurve(t *testing.T) {
	p := plotCurve(LimitReport{Max: 10, Curve: []Point{{1, 90, 0.9, 9}, {10, 30, 0.3, 3}, {100, 0, 0, 0}}})
	if p.Line != "50,10 495,116.67 940,170 " || p.Now != 495 || p.From != 1 || p.To != 100 || p.Most != "90.00 %" {
		t.Errorf("%+v", p)
	}
	for _, l := range []LimitReport{{}, {Curve: []Point{{1, 5, 1, 1}}}, {Curve: []Point{{1, 0, 0, 0}, {2, 0, 0, 0}}}} {
		if plotCurve(l) != nil {
			t.Errorf("%+v has a plot", l)
		}
	}
}

// Most of the busiest clients being a CDN is told by the CDN's name; a few of them are not.
func TestProxiesInPlaceOfClients(t *testing.T) {
	s := newTestSide(t, "")
	edge, client := Group{"104.16.0.1/32", Counts{Requests: 10}}, Group{"203.0.113.7/32", Counts{Requests: 10}}
	more := edge
	more.Requests++
	for _, tt := range []struct {
		busiest []Group
		want    []string
	}{
		{[]Group{more, client}, []string{"cloudflare"}}, {[]Group{edge, client}, []string{}}, {nil, []string{}}, {[]Group{{"unresolved:10.0.0.1", Counts{Requests: 99}}, edge}, []string{}},
	} {
		if diff := cmp.Diff(tt.want, proxies(s.policy.Resolver(), tt.busiest)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.busiest, diff)
		}
	}
}

// Shares that are not nothing are never told as nothing.
func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.00001: "under 0.01 %", 0.0001: "0.01 %", 0.5: "50.00 %", 1: "100.00 %"} {
		if got := percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

// A table that may not grow any more is swept once a window and not at each request, and keeps counting
// those it has.
func TestCountersAreBounded(t *testing.T) {
	racing.Skip(t)
	u := &use{limit: &weir.Limit{Max: 5, Window: time.Minute}, counters: table{most: 1}}
	for i := range uint64(mostCounters) {
		u.ask(i*0x9e3779b97f4a7c15|1, 0, 1, 0)
	}
	full := u.counters.n
	if len(u.counters.slots) != mostCounters || full > 3*mostCounters/4 {
		t.Errorf("%d slots, %d counters", len(u.counters.slots), full)
	}
	u.ask(1, 0, 1, 0)
	u.ask(1, int64(time.Minute), 1, 0)
	u.finish()
	if u.demand.values != int64(full)+1 || u.demand.most != 2 {
		t.Errorf("%d windows, at most %d; want %d, 2", u.demand.values, u.demand.most, full+1)
	}
}

// A request is left undecided if one of two policies cannot decide it.
func TestUndecidedByEither(t *testing.T) {
	line := `10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"
	byHost := "rules: [{name: shop, host: shop.example, limits: [{rate: 0/1m}]}]"
	for _, pair := range [][2]string{{"", byHost}, {byHost, ""}} {
		verdicts, report := play(t, "combined", pair[0], line, func(o *Options) { o.Against = &Policy{Name: "old", Policy: compile(t, pair[1])} })
		if verdicts != "" || report.Lines.LacksHost != 1 || report.Policy.Requests+report.Against.Requests != 0 {
			t.Errorf("%v: %q %+v", pair, verdicts, report.Lines)
		}
	}
}
