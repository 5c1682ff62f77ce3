package journal

import "slices"

// RefusedAfter returns the refusals since the decision with that number, the oldest first: the newest n if
// there were more. The number that comes with them is the newest decision's, for the next call.
func (j *Journal) RefusedAfter(number uint64, n int) (refusals []Entry, newest uint64) {
	newest = j.ring.last.Load() // before it is settled, so that none is passed over
	j.settle()
	return j.ring.after(number, newest, n, refuses), newest
}

// Resolutions returns how many requests since the start had their client found in each way.
func (j *Journal) Resolutions() []uint64 {
	j.settle()
	j.counts.mu.Lock()
	defer j.counts.mu.Unlock()
	return slices.Clone(j.counts.resolutions[:])
}

// Fallbacks is how many hits the store did not answer since the start.
func (j *Journal) Fallbacks() uint64 {
	j.settle()
	j.counts.mu.Lock()
	defer j.counts.mu.Unlock()
	return j.counts.fallbacks
}
