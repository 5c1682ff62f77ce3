package ban

import (
	"container/heap"
	"slices"
	"time"

	"github.com/weirgate/weir"
)

// An ends is a heap of bans that end by themselves, the next first. One that was replaced or lifted stays in
// it until its time.
type ends []*weir.Ban

// Len implements heap.Interface.
func (e ends) Len() int { return len(e) }

// Less implements heap.Interface.
func (e ends) Less(i, j int) bool { return e[i].Until.Before(e[j].Until) }

// Swap implements heap.Interface.
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *ends) Push(b any) { *e = append(*e, b.(*weir.Ban)) }

// Pop implements heap.Interface.
func (e *ends) Pop() any {
	last := len(*e) - 1
	b := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return b
}

// add notes that b will end, if it does.
func (e *ends) add(b *weir.Ban) {
	if !b.Until.IsZero() {
		heap.Push(e, b)
	}
}

// keep drops those that are not wanted.
func (e *ends) keep(wanted func(*weir.Ban) bool) {
	*e = slices.DeleteFunc(*e, func(b *weir.Ban) bool { return !wanted(b) })
	heap.Init(e)
}

// next removes and returns one that ended, or nil.
func (e *ends) next(now time.Time) *weir.Ban {
	if len(*e) == 0 || (*e)[0].Holds(now) {
		return nil
	}
	return heap.Pop(e).(*weir.Ban)
}
