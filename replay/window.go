package replay

import (
	"container/heap"

	"github.com/weirgate/weir/replay/accesslog"
)

// A window puts lines into the order in which their requests began. A line is held until the log has
// gone span further, or until there are most lines held. Lines that come in order cost no sorting.
type window struct {
	span int64 // nanoseconds
	most int
	emit func(*accesslog.Line)

	ordered ring   // lines that came in order
	strays  strays // the others
	seq     uint64
	newest  int64
	emitted int64 // when the last one that was let go began
	late    int64
}

// A held line keeps its place among those of the same time.
type heldLine struct {
	accesslog.Line
	seq uint64
}

func (h *heldLine) before(o *heldLine) bool {
	return h.At < o.At || h.At == o.At && h.seq < o.seq
}

// add takes a copy of l. A line from before what was let go already is late: it counts as if it had
// come at that time.
func (w *window) add(l *accesslog.Line) {
	at := max(l.At, w.emitted)
	if at > l.At {
		w.late++
	}
	w.newest = max(w.newest, at)
	if w.ordered.n == 0 || at >= w.ordered.last().At {
		h := w.ordered.push()
		h.Line, h.At, h.seq = *l, at, w.seq
	} else {
		h := heldLine{*l, w.seq}
		h.At = at
		heap.Push(&w.strays, h)
	}
	w.seq++
	for {
		next := w.first()
		if next == nil || w.newest-next.At < w.span && w.held() <= w.most {
			return
		}
		w.release(next)
	}
}

func (w *window) held() int { return w.ordered.n + len(w.strays) }

// first is the line that began first, or nil.
func (w *window) first() *heldLine {
	switch {
	case w.ordered.n == 0 && len(w.strays) == 0:
		return nil
	case len(w.strays) == 0 || w.ordered.n > 0 && w.ordered.first().before(&w.strays[0]):
		return w.ordered.first()
	}
	return &w.strays[0]
}

// release lets go of the first line.
func (w *window) release(first *heldLine) {
	w.emitted = first.At
	w.emit(&first.Line)
	if len(w.strays) > 0 && first == &w.strays[0] {
		heap.Pop(&w.strays)
	} else {
		w.ordered.pop()
	}
}

// flush lets go of every line.
func (w *window) flush() {
	for next := w.first(); next != nil; next = w.first() {
		w.release(next)
	}
}

// A ring is a queue that grows.
type ring struct {
	lines []heldLine // a power of two
	from  int
	n     int
}

func (r *ring) at(i int) *heldLine { return &r.lines[(r.from+i)&(len(r.lines)-1)] }
func (r *ring) first() *heldLine   { return r.at(0) }
func (r *ring) last() *heldLine    { return r.at(r.n - 1) }

// push returns the place of another line at the end.
func (r *ring) push() *heldLine {
	if r.n == len(r.lines) {
		more := make([]heldLine, max(64, 2*len(r.lines)))
		for i := range r.n {
			more[i] = *r.at(i)
		}
		r.lines, r.from = more, 0
	}
	r.n++
	return r.last()
}

func (r *ring) pop() {
	*r.first() = heldLine{} // so that its piece of the log can go
	r.from = (r.from + 1) & (len(r.lines) - 1)
	r.n--
}

// strays is a heap (container/heap), the line that began first on top.
type strays []heldLine

func (s strays) Len() int           { return len(s) }
func (s strays) Less(i, j int) bool { return s[i].before(&s[j]) }
func (s strays) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *strays) Push(x any)        { *s = append(*s, x.(heldLine)) }
func (s *strays) Pop() any {
	last := len(*s) - 1
	h := (*s)[last]
	(*s)[last] = heldLine{}
	*s = (*s)[:last]
	return h
}
