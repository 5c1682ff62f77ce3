package storetest

import (
	"fmt"
	"time"

	"github.com/weirgate/weir"
)

func exactlyN(s *suite) {
	for _, l := range every(3, long) {
		name := l.Algorithm.String()
		for left := int64(2); left >= 0; left-- {
			s.want(name, s.take(s.hit(l, name, 1)), answer{OK: true, Left: left})
		}
		s.want(name+": one over", s.take(s.hit(l, name, 1)), answer{})
		s.want(name+": costs", s.take(s.hit(l, name+"/costs", 2)), answer{OK: true, Left: 1})
		s.want(name+": a cost over what is left", s.take(s.hit(l, name+"/costs", 2)), answer{Left: 1})
		s.want(name+": what is left", s.take(s.hit(l, name+"/costs", 1)), answer{OK: true})
	}
}

// waiting: a retry is a promise, and where time stands still it is exact.
func waiting(s *suite) {
	for _, l := range windowed(2, s.Window) {
		name := l.Algorithm.String()
		s.begin(s.Window)
		s.take(s.hit(l, name, 2))
		st := s.one(l, name, 1)
		if st.Allowed || st.RetryAfter <= 0 || st.RetryAfter > 2*s.Window {
			s.Errorf("%s: %+v, want a refusal and a wait", name, st)
			continue
		}
		if s.Exact {
			s.Advance(st.RetryAfter - 1)
			if early := s.one(l, name, 1); early.RetryAfter != 1 {
				s.Errorf("%s: %+v, want one nanosecond to go", name, early)
			}
			s.Advance(1)
		} else {
			s.Advance(st.RetryAfter)
		}
		if st := s.one(l, name, 1); !st.Allowed {
			s.Errorf("%s: after the wait: %+v", name, st)
		}
	}
	if st := s.quotaRefusal(); st.RetryAfter != st.ResetAfter || st.RetryAfter > 32*24*time.Hour {
		s.Errorf("quota: %+v, want a wait until the month is over", st)
	}
}

func (s *suite) quotaRefusal() weir.Status {
	l := &weir.Limit{Algorithm: weir.Quota, Max: 1, Period: weir.Month}
	s.one(l, "quota", 1)
	return s.one(l, "quota", 1)
}

// refusalChangesNothing: hammering neither charges nor lengthens the wait.
func refusalChangesNothing(s *suite) {
	for _, l := range every(2, long) {
		name := l.Algorithm.String()
		s.one(l, name, 2)
		before := s.peek(s.hit(l, name, 1), s.hit(l, name, 0))
		for range 20 {
			s.want(name, s.take(s.hit(l, name, 1)), answer{})
		}
		s.equal(name, s.peek(s.hit(l, name, 1), s.hit(l, name, 0)), before)
	}
}

func looks(s *suite) {
	for _, l := range every(3, long) {
		name := l.Algorithm.String()
		for range 10 {
			s.want(name+": look", s.take(s.hit(l, name, 0)), answer{OK: true, Left: 3})
		}
		s.want(name, s.take(s.hit(l, name, 3)), answer{OK: true})
		s.want(name+": look at nothing", s.take(s.hit(l, name, 0)), answer{})
	}
}

func costOverLimit(s *suite) {
	for _, l := range every(3, long) {
		name := l.Algorithm.String()
		s.want(name, s.take(s.hit(l, name, 4)), answer{Left: 3, Never: true})
		s.want(name+": far over", s.take(s.hit(l, name, 1<<62)), answer{Left: 3, Never: true})
		s.want(name+": the whole", s.take(s.hit(l, name, 3)), answer{OK: true})
	}
}

func nothingPasses0(s *suite) {
	for _, l := range every(0, long) {
		name := l.Algorithm.String()
		s.want(name, s.take(s.hit(l, name, 1)), answer{Never: true})
		s.want(name+": look", s.take(s.hit(l, name, 0)), answer{Never: true})
	}
}

// newMax: the count is the key's, not the limit's.
func newMax(s *suite) {
	for _, l := range every(10, long) {
		name := l.Algorithm.String()
		s.one(l, name, 3)
		s.want(name+": lowered", s.take(s.hit(withMax(l, 2), name, 1)), answer{})
		s.want(name+": raised", s.take(s.hit(withMax(l, 5), name, 2)), answer{OK: true})
		s.want(name+": over the new max", s.take(s.hit(withMax(l, 5), name, 1)), answer{})
	}
}

func withMax(l *weir.Limit, most int64) *weir.Limit {
	m := *l
	m.Max, m.Burst = most, most
	return &m
}

// keysApart: every byte of a key counts, whatever it is.
func keysApart(s *suite) {
	l := &weir.Limit{Max: 1, Window: long}
	for i, name := range []string{"", "a", "a\x00", "\x00a", "a_b", "a:b", "{a}b", "a}b", "\xff\xfe", "ä", "a\r\nb", fmt.Sprintf("%2000d", 1)} {
		s.want(fmt.Sprintf("key %d", i), s.take(s.hit(l, name, 1)), answer{OK: true})
		s.want(fmt.Sprintf("key %d again", i), s.take(s.hit(l, name, 1)), answer{})
	}
}

func peeks(s *suite) {
	for _, l := range every(2, long) {
		name := l.Algorithm.String()
		for range 3 { // two that pass and one that does not
			h := s.hit(l, name, 1)
			s.peek(h)
			said := s.peek(h)
			s.equal(name, s.take(h), said)
		}
	}
	l, m := &weir.Limit{Max: 1, Window: long}, &weir.Limit{Max: 5, Window: long}
	hits := []weir.Hit{s.hit(l, "several", 1), s.hit(m, "others", 1)}
	for range 2 {
		said := s.peek(hits...)
		s.equal("several", s.take(hits...), said)
	}
}

func resets(s *suite) {
	for _, l := range every(2, long) {
		name := l.Algorithm.String()
		s.take(s.hit(l, name, 2), s.hit(l, name+"/other", 2))
		s.reset(s.hit(l, name, 1), s.hit(l, name+"/unused", 1))
		s.want(name, s.take(s.hit(l, name, 0), s.hit(l, name+"/other", 0)), answer{OK: true, Left: 2}, answer{})
	}
}
