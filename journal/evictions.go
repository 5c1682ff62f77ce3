package journal

import (
	"log/slog"
	"time"
)

// evictionsEvery is the shortest time between two warnings of evictions.
const evictionsEvery = time.Minute

// An evictionAlarm warns while the store in memory forgets counters for want of room: whoever is
// forgotten has his whole limit again. It belongs to Run.
type evictionAlarm struct {
	read func() uint64 // since the start; nil: nobody knows
	told uint64        // how many of them have been told of
	at   time.Time     // when, or the zero Time
}

// look warns of evictions since the last warning, if that was long enough ago.
func (a *evictionAlarm) look(now time.Time, log *slog.Logger) {
	if a.read == nil || !a.at.IsZero() && now.Sub(a.at) < evictionsEvery {
		return
	}
	n := a.read()
	if n == a.told {
		return
	}
	log.Warn("counters forgotten for want of room: those clients have their whole limit again",
		"evictions", n-a.told, "setting", "store.memory.max_keys")
	a.told, a.at = n, now
}
