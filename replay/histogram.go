package replay

import (
	"maps"
	"math/bits"
	"slices"
)

// A histogram is how often each value came. Values to 2,048 are kept exactly, greater ones rounded up
// by less than 0.1 %.
type histogram struct {
	counts map[uint64]int64
	values int64 // how many
	sum    uint64
	most   uint64 // exact
}

const exactBits = 11

// add notes a value above 0.
func (h *histogram) add(v uint64) {
	if h.counts == nil {
		h.counts = map[uint64]int64{}
	}
	h.counts[rounded(v)]++
	h.values++
	h.sum += v
	h.most = max(h.most, v)
}

// rounded keeps the leading bits of v.
func rounded(v uint64) uint64 {
	if v <= 1<<exactBits {
		return v
	}
	drop := bits.Len64(v) - exactBits
	return (v + 1<<drop - 1) >> drop << drop
}

// A spread is what can be asked of a histogram.
type spread struct {
	h      *histogram
	sorted []uint64
}

func (h *histogram) spread() spread {
	return spread{h, slices.Sorted(maps.Keys(h.counts))}
}

// at returns the least value that a share of all, from 0 to 1, is not above.
func (s spread) at(share float64) uint64 {
	seen := int64(0)
	for _, v := range s.sorted {
		if seen += s.h.counts[v]; float64(seen) >= share*float64(s.h.values) {
			return min(v, s.h.most)
		}
	}
	return s.h.most
}

// over returns the sum of what goes beyond limit, and how many values do.
func (s spread) over(limit uint64) (excess uint64, values int64) {
	for _, v := range slices.Backward(s.sorted) {
		v, n := min(v, s.h.most), s.h.counts[v]
		if v <= limit {
			break
		}
		excess += (v - limit) * uint64(n)
		values += n
	}
	return excess, values
}
