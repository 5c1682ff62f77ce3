//go:build race

package spoe

// raced is set where the race detector is on, under which sync.Pool forgets at random.
const raced = true
