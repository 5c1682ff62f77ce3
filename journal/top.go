package journal

import (
	"strconv"

	"github.com/weirgate/weir"
)

// topFamily is the metric of the clients that ask most: as many series as were asked for, however many
// clients there are. Addresses are written as in the log.
func (j *Journal) topFamily() family {
	const help = "Requests within the last hour of the clients that asked most, at least; written as the log writes addresses."
	return gauge("top_client_requests", help, func(e emit) {
		n := int(j.top.Load())
		if n == 0 {
			return
		}
		for i, t := range j.Top(TopQuery{By: ByClient, Within: Hour, Most: n}).Talkers {
			c, _ := weir.ParseKey(t.Key)
			e(float64(t.Requests), strconv.Itoa(i+1), j.masker.client(&c))
		}
	}, "rank", "client")
}

// RefusedAfter returns the refusals since the decision with that number, the oldest first: the newest n if
// there were more. The number that comes with them is the newest decision's, for the next call.
func (j *Journal) RefusedAfter(number uint64, n int) (refusals []Entry, newest uint64) {
	return j.ring.after(number, n, refuses)
}

// Resolutions returns how many requests since the start had their client found in each way.
func (j *Journal) Resolutions() []uint64 {
	n := make([]uint64, sources)
	for i := range n {
		n[i] = j.counts.resolutions[i].Load()
	}
	return n
}

// Fallbacks is how many hits the store did not answer since the start.
func (j *Journal) Fallbacks() uint64 { return j.counts.fallbacks.Load() }
