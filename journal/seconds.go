package journal

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// keptSeconds is how far back the series goes: 10 minutes.
const keptSeconds = 600

// A Point is what happened in one second. Latencies are from the decision to the end of the answer, in
// seconds, known to a tenth; null where nothing ended.
type Point struct {
	Time     time.Time `json:"time"`
	Requests uint64    `json:"requests"`
	Refused  uint64    `json:"refused"`
	Shadow   uint64    `json:"shadow" doc:"requests that a shadow limit would have refused"`
	P50      *float64  `json:"p50" doc:"seconds from the decision to the end of the answer; null where nothing ended"`
	P95      *float64  `json:"p95" doc:"likewise"`
	P99      *float64  `json:"p99" doc:"likewise"`
}

// A timeline is the last 10 minutes, by the second in which an answer ended.
type timeline struct {
	kept   []second // nil until the first answer
	newest *second  // nil likewise
}

type second struct {
	unix                      int64
	requests, refused, shadow uint32
	latency                   [latencies]uint32
}

// add counts an answer. What ended before the newest second counts in it.
func (s *timeline) add(n *note) {
	if s.kept == nil {
		s.kept = make([]second, keptSeconds)
		s.newest = &s.kept[0]
	}
	if n.ended > s.newest.unix {
		s.newest = &s.kept[n.ended%keptSeconds]
		*s.newest = second{unix: n.ended}
	}
	at := s.newest
	at.requests++
	if n.refused {
		at.refused++
	}
	if len(n.shadow) > 0 {
		at.shadow++
	}
	at.latency[latencyBucket(n.duration)]++
}

// at returns the second that began at unix.
func (s *timeline) at(unix int64) second {
	if s.kept == nil {
		return second{unix: unix}
	}
	if at := s.kept[max(unix, 0)%keptSeconds]; at.unix == unix {
		return at
	}
	return second{unix: unix}
}

// Latencies are counted in buckets that grow by a quarter of an octave, from 16 µs to a minute.
const (
	perOctave    = 4
	firstOctave  = 4 // 2^4 µs
	latencies    = perOctave * 23
	octaveBits   = 2
	fractionMask = perOctave - 1
)

func latencyBucket(d time.Duration) int {
	us := uint64(max(d/time.Microsecond, 1<<firstOctave))
	octave := bits.Len64(us) - 1
	fraction := us >> (octave - octaveBits) & fractionMask
	return min((octave-firstOctave)*perOctave+int(fraction), latencies-1)
}

// bucketMiddle returns the seconds that stand for a bucket.
func bucketMiddle(i int) float64 {
	octave, fraction := i/perOctave+firstOctave, i%perOctave
	return math.Ldexp(1+(float64(fraction)+.5)/perOctave, octave) / 1e6
}

// quantile returns the latency that a share of the second's answers did not exceed, or nil.
func (s *second) quantile(share float64) *float64 {
	rank := max(uint32(math.Ceil(share*float64(s.requests))), 1)
	seen := uint32(0)
	for i, n := range s.latency {
		if seen += n; seen >= rank {
			middle := bucketMiddle(i)
			return &middle
		}
	}
	return nil
}

func (s *second) point() Point {
	return Point{
		Time: time.Unix(s.unix, 0).UTC(), Requests: uint64(s.requests), Refused: uint64(s.refused), Shadow: uint64(s.shadow),
		P50: s.quantile(.5), P95: s.quantile(.95), P99: s.quantile(.99),
	}
}

// Series returns the last n seconds that are over, at most 600, the oldest first.
func (j *Journal) Series(n int) []Point {
	j.settle()
	return j.talkers.series(j.now(), n)
}

func (t *talkers) series(now time.Time, n int) []Point {
	n = min(max(n, 0), keptSeconds-1)
	copied := make([]second, n)
	t.mu.Lock()
	for i := range copied {
		copied[i] = t.seconds.at(now.Unix() - int64(n-i))
	}
	t.mu.Unlock()
	points := make([]Point, n)
	for i := range copied {
		points[i] = copied[i].point()
	}
	return points
}

// ChainEntries returns how many requests since the start had a chain of as many entries as the index
// says; the last stands for more, too.
func (j *Journal) ChainEntries() []uint64 {
	j.settle()
	j.counts.mu.Lock()
	defer j.counts.mu.Unlock()
	return slices.Clone(j.counts.chainEntries.counts)
}
