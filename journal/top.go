package journal

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
