package envoyrls

import (
	"context"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// A scripted is a store that does what a test says, and lets everything pass.
type scripted struct{ do func() error }

func (s *scripted) Take(_ context.Context, _ time.Time, hits []weir.Hit, out []weir.Status) error {
	err := s.do()
	for i := range hits {
		out[i] = weir.Status{Limit: hits[i].Limit, Allowed: true}
	}
	return err
}

func entry(key, value string) descriptors.Entry { return descriptors.Entry{Key: key, Value: value} }

// overrideOf is a limit of n a day that a descriptor brings along.
func overrideOf(n uint32) descriptors.Limit {
	return descriptors.Limit{Unit: descriptors.Day, Window: descriptors.Day.Window(), PerUnit: n, Metric: overrideMetric}
}

// Limits per second are counted in the one store and all others in the other, each status in its place.
func TestPerSecond(t *testing.T) {
	second, rest := NewMemory(MemoryOptions{}), NewMemory(MemoryOptions{})
	h := build(t, plan{yaml: someLimits, options: Options{Store: PerSecond(second, rest)}})
	for _, c := range []struct {
		ask  *pb.RateLimitRequest
		want string
	}{
		{request(descriptor("second", "a")), "OK | OK 0/1 SECOND"},
		{request(descriptor("l3", "a")), "OK | OK 2/3 DAY"},
		{request(descriptor("l3", "a"), descriptor("second", "a"), descriptor("l10", "a"), descriptor("second", "b")),
			"OVER_LIMIT | OK 1/3 DAY | OVER_LIMIT 0/1 SECOND | OK 9/10 DAY | OK 0/1 SECOND"},
	} {
		if got := line(h.ask(t, c.ask)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if second.Keys() != 2 || rest.Keys() != 2 {
		t.Errorf("%d and %d counters, want 2 and 2", second.Keys(), rest.Keys())
	}
}

// If one of the two fails, even by a panic, the request cannot be counted, and that is all.
func TestPerSecondFails(t *testing.T) {
	for _, fail := range []func() error{func() error { return errAway }, func() error { panic("a fault") }} {
		h := build(t, plan{yaml: someLimits, options: Options{Store: PerSecond(&scripted{do: fail}, NewMemory(MemoryOptions{}))}})
		_, err := h.ShouldRateLimit(context.Background(), request(descriptor("l3", "a"), descriptor("second", "a")))
		if status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	}
}
