package storetest

import (
	"math"

	"github.com/weirgate/weir"
)

// allOrNothing, with each algorithm as the one that refuses and as those that are spared.
func allOrNothing(s *suite) {
	for _, narrow := range every(1, long) {
		name := narrow.Algorithm.String()
		request := func() []weir.Hit {
			hits := []weir.Hit{s.hit(narrow, name, 1)}
			for _, wide := range every(9, long) {
				hits = append(hits, s.hit(wide, name+"/"+wide.Algorithm.String(), 1))
			}
			return hits
		}
		ok := answer{OK: true, Left: 8}
		s.want(name, s.take(request()...), answer{OK: true}, ok, ok, ok, ok, ok, ok)
		for range 3 {
			s.want(name+": refused", s.take(request()...), answer{}, ok, ok, ok, ok, ok, ok)
		}
	}
}

// severalStatuses: of a request that is refused, each hit is told what holds without a charge.
func severalStatuses(s *suite) {
	a, b, c := &weir.Limit{Max: 1, Window: long}, &weir.Limit{Max: 5, Window: long}, &weir.Limit{Max: 2, Window: long}
	s.one(a, "a", 1)
	s.one(b, "b", 1)
	s.want("two refuse", s.take(s.hit(b, "b", 2), s.hit(a, "a", 1), s.hit(c, "c", 3)),
		answer{OK: true, Left: 4}, answer{}, answer{Left: 2, Never: true})
	s.want("the spared one", s.take(s.hit(b, "b", 4)), answer{OK: true})
	if out := s.take(); len(out) != 0 {
		s.Errorf("no hits: %v", out)
	}
}

// shadowOver: a shadow over its limit is not charged, is told the truth, and keeps nothing else from
// being charged.
func shadowOver(s *suite) {
	for _, shadow := range every(1, long) {
		name := shadow.Algorithm.String()
		shadow.Mode = weir.Shadow
		live := &weir.Limit{Max: 5, Window: long}
		for i := range int64(3) {
			want := answer{OK: i == 0}
			over := s.hit(shadow, name, 1)
			s.want(name, s.take(over, s.hit(live, name+"/live", 1)), want, answer{OK: true, Left: 4 - i})
			if i > 0 {
				s.release(over)
			}
		}
		s.want(name+": what it was charged", s.take(s.hit(withMax(shadow, 3), name, 0)), answer{OK: true, Left: 2})
	}
}

// refusalSparesShadows: where an enforcing hit refuses, shadows aren't charged either.
func refusalSparesShadows(s *suite) {
	for _, shadow := range every(5, long) {
		name := shadow.Algorithm.String()
		shadow.Mode = weir.Shadow
		live := &weir.Limit{Max: 1, Window: long}
		s.want(name, s.take(s.hit(shadow, name, 1), s.hit(live, name+"/live", 1)), answer{OK: true, Left: 4}, answer{OK: true})
		for range 3 {
			s.want(name, s.take(s.hit(shadow, name, 1), s.hit(live, name+"/live", 1)), answer{OK: true, Left: 4}, answer{})
		}
		s.want(name+": shadow over too", s.take(s.hit(shadow, name, 6), s.hit(live, name+"/live", 1)),
			answer{Left: 4, Never: true}, answer{})
	}
}

// oneCounterTwice: two hits of one request on one counter do not both fit where only one does.
func oneCounterTwice(s *suite) {
	for _, l := range every(3, long) {
		name := l.Algorithm.String()
		s.want(name, s.take(s.hit(l, name, 1), s.hit(l, name, 1)), answer{OK: true, Left: 2}, answer{OK: true, Left: 1})
		got := s.take(s.hit(l, name, 1), s.hit(l, name, 1))
		if got[0].Allowed && got[1].Allowed {
			s.Errorf("%s: %+v, want one of them refused", name, got)
		}
		got = s.take(s.hit(l, name, 1), s.hit(l, name, math.MaxInt64))
		if got[1].Allowed || got[1].RetryAfter != weir.Never {
			s.Errorf("%s: %+v, want the second never to pass", name, got)
		}
		s.want(name+": nothing was charged", s.take(s.hit(l, name, 1)), answer{OK: true})
	}
}

// manyHits: a request may have more hits than any usual one.
func manyHits(s *suite) {
	l := &weir.Limit{Max: 2, Window: long}
	for i := range 3 {
		var hits []weir.Hit
		for c := range 40 {
			hits = append(hits, s.hit(l, string(rune('a'+c)), 1))
		}
		for _, st := range s.take(hits...) {
			if st.Allowed != (i < 2) || st.Remaining != int64(max(0, 1-i)) {
				s.Fatalf("request %d: %+v", i, st)
			}
		}
	}
}
