package journal

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A histogram counts values in buckets. It is not safe for concurrent use.
type histogram struct {
	unit   float64  // how many of what is counted are one of what is told
	bounds []int64  // the greatest value of each bucket; one more bucket has no bound
	counts []uint64 // of each bucket alone
	sum    float64
}

// newHistogram returns an empty histogram with buckets up to bounds, which are told.
func newHistogram(unit float64, bounds ...float64) histogram {
	h := histogram{unit: unit, counts: make([]uint64, len(bounds)+1)}
	for _, b := range bounds {
		h.bounds = append(h.bounds, int64(math.Round(b*unit)))
	}
	return h
}

func (h *histogram) add(value int64) {
	i := 0
	for i < len(h.bounds) && value > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += float64(value)
}

func (h histogram) clone() histogram {
	h.counts = slices.Clone(h.counts)
	return h
}

// A spread is a histogram that is read when it is scraped.
type spread struct {
	desc *prometheus.Desc
	read func() histogram
}

// Describe implements prometheus.Collector.
func (s spread) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s spread) Collect(ch chan<- prometheus.Metric) {
	h, total := s.read(), uint64(0)
	upTo := make(map[float64]uint64, len(h.bounds))
	for i, bound := range h.bounds {
		total += h.counts[i]
		upTo[float64(bound)/h.unit] = total
	}
	ch <- prometheus.MustNewConstHistogram(s.desc, total+h.counts[len(h.bounds)], h.sum/h.unit, upTo)
}
