package journal

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A histogram counts values in buckets. It is not safe for concurrent use.
type histogram struct {
	bounds []float64 // the greatest value of each bucket; one more bucket has no bound
	counts []uint64  // of each bucket alone
	sum    float64
}

func newHistogram(bounds ...float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) add(value float64) {
	i := 0
	for i < len(h.bounds) && value > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += value
}

func (h *histogram) clone() histogram { return histogram{h.bounds, slices.Clone(h.counts), h.sum} }

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
		upTo[bound] = total
	}
	ch <- prometheus.MustNewConstHistogram(s.desc, total+h.counts[len(h.bounds)], h.sum, upTo)
}
