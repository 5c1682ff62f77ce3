// Package limiters measures rate limiters that count in this process: Weir's store beside its peers.
//
// Each lives in a child process of its own, so that none pays for the heap of another, and the children
// work in turns, so that what else the machine does meets all of them alike.
package limiters

import (
	"slices"
	"time"
)

// A limiter is a contender.
type limiter struct {
	name string
	// open returns a new, empty limiter. What that returns makes the decisions of one goroutine.
	open func(o options) func() take
	// expires is set where keys are forgotten some time, so that there is a moment to look at.
	expires bool
}

// A take decides one request of a client.
type take func(key string) bool

// options say what is decided.
type options struct {
	refuse bool          // all but the first few; else nothing is refused
	window time.Duration // of the limit
}

// limit is how many may pass.
func (o options) limit() int {
	if o.refuse {
		return 10
	}
	return 1 << 30
}

// all returns the contenders, Weir's first.
func all() []limiter { return append(ours(), peers()...) }

// names returns what the contenders are called.
func names() (names []string) {
	for _, l := range all() {
		names = append(names, l.name)
	}
	return names
}

func find(name string) (limiter, bool) {
	contenders := all()
	i := slices.IndexFunc(contenders, func(l limiter) bool { return l.name == name })
	if i < 0 {
		return limiter{}, false
	}
	return contenders[i], true
}
