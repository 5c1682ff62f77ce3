package replay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/weirgate/weir/replay/accesslog"
)

// A merger makes one log of several: of servers beside one another, or of one server in turns. What is out
// of order in a log stays so, by as much and no more.
type merger struct {
	ctx     context.Context
	early   int64 // nanoseconds by which a log is opened before its first request, since a later line may have begun before
	waiting []*accesslog.Log
	open    []*source // in the order in which they were opened; few
	arrived func(log string, b *accesslog.Batch) error
	take    func(*accesslog.Line)
}

// A source is a log that has come up.
type source struct {
	name   string
	stream *accesslog.Stream
	lines  []accesslog.Line // what is left of the batch
	at     int64            // the newest of what was taken and of the next line
}

// byFirst returns logs in the order of their first requests.
func byFirst(logs []*accesslog.Log) []*accesslog.Log {
	sorted := slices.Clone(logs)
	slices.SortStableFunc(sorted, func(a, b *accesslog.Log) int { return cmp.Compare(a.First, b.First) })
	return sorted
}

// run takes all lines. Logs whose time has not come are not read: of a year's rotated logs, one or two
// are held in memory at once.
func (m *merger) run() error {
	for {
		first, until := m.first()
		if len(m.waiting) > 0 && (first == nil || first.at >= m.waiting[0].First-m.early) {
			if err := m.openNext(); err != nil {
				return err
			}
			continue
		}
		if first == nil {
			return m.ctx.Err() // standard input ends when it is done
		}
		if err := m.takeFrom(first, until); err != nil {
			return err
		}
	}
}

// first returns the source whose next line is to be taken, and from when on it is another's turn. Of two
// lines of one time that of the log that was opened first comes first.
func (m *merger) first() (first *source, until int64) {
	at := -1
	for i, s := range m.open {
		if at < 0 || s.at < first.at {
			at, first = i, s
		}
	}
	until = math.MaxInt64
	if len(m.waiting) > 0 {
		until = m.waiting[0].First - m.early
	}
	for i, s := range m.open {
		switch {
		case i < at:
			until = min(until, s.at)
		case i > at:
			until = min(until, s.at+1)
		}
	}
	return first, until
}

// takeFrom takes lines of s, one at least, until it is another's turn or a batch ends.
func (m *merger) takeFrom(s *source, until int64) error {
	for n := range s.lines {
		l := &s.lines[n]
		if s.at = max(s.at, l.At); n > 0 && s.at >= until {
			s.lines = s.lines[n:]
			return nil
		}
		m.take(l)
	}
	return m.fill(s)
}

func (m *merger) openNext() error {
	l := m.waiting[0]
	m.waiting = m.waiting[1:]
	s := &source{name: l.Name, stream: l.Stream(m.ctx), at: math.MinInt64}
	m.open = append(m.open, s)
	return m.fill(s)
}

// fill reads on in s, which is closed at its end.
func (m *merger) fill(s *source) error {
	for {
		b, err := s.stream.Next()
		if errors.Is(err, io.EOF) {
			s.stream.Close()
			m.open = slices.DeleteFunc(m.open, func(o *source) bool { return o == s })
			return nil
		}
		if err != nil {
			return err
		}
		if err := m.arrived(s.name, b); err != nil {
			return err
		}
		if s.lines = b.Lines; len(s.lines) > 0 {
			s.at = max(s.at, s.lines[0].At)
			return nil
		}
	}
}

func (m *merger) close() {
	for _, s := range m.open {
		s.stream.Close()
	}
}
