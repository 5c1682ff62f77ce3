package replicas_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/envoyrls"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

// never is how long a frozen store takes to answer.
const never time.Duration = -1

// envoyPatience is how long Envoy waits for its rate limit service where nobody says otherwise.
const envoyPatience = 20 * time.Millisecond

// A slowness is how the store answers, and what that makes of the service's answers.
type slowness struct {
	name     string
	delay    time.Duration // until the store answers; never
	counting envoyrls.Counting
	bare     time.Duration // what the service is to wait for the store
	bound    time.Duration // what its answer may take at p99.9
}

func slownesses() []slowness {
	return []slowness{
		{"1 ms", time.Millisecond, envoyrls.Compat, time.Millisecond, 10 * time.Millisecond},
		{"15 ms", 15 * time.Millisecond, envoyrls.Compat, timeout, envoyPatience},
		{"40 ms", 40 * time.Millisecond, envoyrls.Compat, timeout, envoyPatience},
		{"frozen", never, envoyrls.Compat, timeout, envoyPatience},
		{"frozen, Weir's own counting", never, envoyrls.Own, timeout, envoyPatience},
	}
}

// However late the store is, every question is answered, from this replica's share where the store is away, so that
// Envoy never lets a request through for want of an answer.
func TestEnvoyIsAnswered(t *testing.T) {
	for _, s := range slownesses() {
		t.Run(s.name, func(t *testing.T) {
			service := s.start(t)
			waitRound(func() {
				if err := askAsEnvoy(service, patience); err != nil {
					t.Error(err)
				}
			}, func() {})
		})
	}
}

// FAL-20: with Envoy's deadline and a store that answers in 1 ms the service answers within 10 ms at p99.9; with one
// that answers in 15 ms, in 40 ms or never, within Envoy's 20 ms. 32 askers ask at once, about 2,000 times a second.
// What a bare timer beside each question is late, the machine is late, as in TestAddedWait.
func TestEnvoyIsAnsweredInTime(t *testing.T) {
	timed.Only(t)
	for _, s := range slownesses() {
		t.Run(s.name, func(t *testing.T) { s.check(t, s.start(t)) })
	}
}

// start returns the service over a store of that slowness.
func (s slowness) start(t *testing.T) *envoyrls.Server {
	t.Helper()
	server := redistest.Start(t)
	way := startRelay(t, server.Addr)
	service := startRLS(t, way.url(), s.counting)
	if err := askAsEnvoy(service, patience); err != nil { // connects
		t.Fatal(err)
	}
	if s.delay == never {
		server.Freeze()
		t.Cleanup(server.Thaw)
	} else {
		way.delay.Store(int64(s.delay / 2)) // each way
	}
	return service
}

const envoyRounds = 5 // of which the middle one counts

func (s slowness) check(t *testing.T, service *envoyrls.Server) {
	t.Helper()
	var excess []time.Duration
	var unanswered []int64
	for range envoyRounds {
		var failed, late atomic.Int64
		ours, bare := waitRound(func() {
			if askAsEnvoy(service, envoyPatience) != nil {
				failed.Add(1)
			}
		}, func() {
			began := time.Now()
			if time.Sleep(s.bare); time.Since(began) > envoyPatience {
				late.Add(1)
			}
		})
		excess = append(excess, ours-max(bare, s.bare))
		unanswered = append(unanswered, failed.Load()-late.Load())
		t.Logf("p99.9 %v, of a bare timer %v; %d unanswered, %d timers later than Envoy waits", ours, bare, failed.Load(), late.Load())
	}
	slices.Sort(excess)
	slices.Sort(unanswered)
	if got, most := excess[envoyRounds/2], s.bound-s.bare; got > most {
		t.Errorf("p99.9 is %v over that of a bare timer of %v, want at most %v", got, s.bare, most)
	}
	if got := unanswered[envoyRounds/2]; got > 1 { // of 1,280
		t.Errorf("%d more questions were not answered in time than timers were late", got)
	}
}

// startRLS returns the service as `weir run` has it, over the Redis at url, which is asked each time: no open breaker
// shortens the waits.
func startRLS(t *testing.T, url string, counting envoyrls.Counting) *envoyrls.Server {
	t.Helper()
	shared, err := redis.New(redis.Options{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	own := memory.New(memory.Options{})
	var far, near failover.Backend = redis.NewWindow(shared, redis.WindowOptions{}), envoyrls.NewMemory(envoyrls.MemoryOptions{})
	if counting == envoyrls.Own {
		far, near = shared, own
	}
	store := failover.New(far, near, failover.Options{Timeout: timeout, Failures: 1 << 40, ProbeEvery: time.Hour})
	t.Cleanup(func() {
		store.Close()
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		own.Close()
	})
	set, problems := descriptors.Parse([]descriptors.Source{{File: "d.yaml",
		Content: []byte("domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1000000000}}]\n")}}, descriptors.Options{})
	if set == nil {
		t.Fatal(problems)
	}
	service := envoyrls.New(engine.New(enginetest.Snapshot(t, "", store), journal.Discard(), time.Now), envoyrls.Options{Counting: counting, Store: store})
	service.Set(set)
	return service
}

// askAsEnvoy asks once, and waits for so long.
func askAsEnvoy(service *envoyrls.Server, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := service.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "a", Value: "x"}}},
	}})
	return err
}
