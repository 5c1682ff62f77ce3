package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// changes are what the breaker told.
type changes struct {
	mu   sync.Mutex
	told []string
}

func (c *changes) note(what Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what.Cause == nil {
		c.told = append(c.told, "closed")
		return
	}
	c.told = append(c.told, fmt.Sprintf("%s: %v", what.Kind, what.Cause))
}

func (c *changes) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// An operator is told why the breaker opened, once, and that it closed.
func TestChangesAreTold(t *testing.T) {
	for _, c := range []struct {
		name  string
		mood  mood
		probe error // the first one's
		want  []string
	}{
		{"an error", broken, errBroken, []string{"error: " + errBroken.Error(), "closed"}},
		{"a panic", mad, errBroken, []string{"panic: " + errPanic.Error() + ": nil map", "closed"}},
		{"silence", mute, context.DeadlineExceeded, []string{"timeout: " + errTimeout.Error(), "closed"}},
		{"silence of the connection", mute, fmt.Errorf("redis: read: %w", os.ErrDeadlineExceeded), []string{"timeout: " + errTimeout.Error(), "closed"}},
		{"silence, and what is behind it", mute, errors.New("LOADING"), []string{"timeout: " + errTimeout.Error(), "error: LOADING", "closed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told changes
			probes := 0
			probe := func(context.Context) error {
				probes++
				if probes == 1 {
					return c.probe
				}
				return nil
			}
			inBubble(t, Options{Changed: told.note, Probe: probe}, func(h *house) {
				h.far.be(c.mood)
				for range 6 { // three are enough
					if _, _, err := h.take(h.hit(perMinute(9), "a", 1)); err != nil {
						t.Fatal(err)
					}
				}
				if got := told.all(); !cmp.Equal(got, c.want[:1]) {
					t.Errorf("at the opening: %q, want %q", got, c.want[:1])
				}
				time.Sleep(2500 * time.Millisecond) // two probes
				if got := told.all(); !cmp.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}
