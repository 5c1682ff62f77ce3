package extauthz

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

// hooked is a store that does something first.
type hooked struct {
	engine.Store
	first func()
}

func (s hooked) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	s.first()
	return s.Store.Take(ctx, now, hits, out)
}

// withHook returns a running house whose store does something first.
func withHook(t *testing.T, first func()) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 100})
	t.Cleanup(store.Close)
	return over(t, enginetest.Snapshot(t, ``, hooked{store, first}))
}

// envoyproxy/ratelimit stopped for a descriptor it could not handle. A fault of ours costs one answer: an error
// that Envoy treats as failure_mode_allow says. The next question is answered.
func TestAPanicIsOneAnswer(t *testing.T) {
	var once sync.Once
	h := withHook(t, func() { once.Do(func() { panic("a fault") }) })
	_, err := authpb.NewAuthorizationClient(h.envoy).Check(t.Context(), question("203.0.113.7", "GET", "/"))
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a fault") {
		t.Errorf("got %v, want INTERNAL without what happened", err)
	}
	if got := h.ask(question("203.0.113.7", "GET", "/")); got.GetOkResponse() == nil {
		t.Errorf("afterwards: %v", got)
	}
}

// Health is for the service and for all, and ends with the drain.
func TestHealth(t *testing.T) {
	h := build(t, ``)
	c := healthpb.NewHealthClient(h.envoy)
	for _, service := range []string{"", "envoy.service.auth.v3.Authorization"} {
		got, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
}

// A drain lets the call under way end, and accepts none after it.
func TestDrain(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	h := withHook(t, func() { close(inside); <-leave })
	answered := make(chan *authpb.CheckResponse)
	go func() { answered <- h.ask(question("203.0.113.7", "GET", "/")) }()
	<-inside
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(context.Background()) }()
	select {
	case err := <-drained:
		t.Fatalf("drained beside a call: %v", err)
	case <-time.After(20 * time.Millisecond): // not for luck: a drain that is early would only be missed
	}
	close(leave)
	if got := <-answered; got.GetOkResponse() == nil {
		t.Errorf("got %v", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, err := authpb.NewAuthorizationClient(h.envoy).Check(t.Context(), question("203.0.113.7", "GET", "/")); status.Code(err) != codes.Unavailable {
		t.Errorf("after the drain: %v", err)
	}
}

// A drain whose time is over cuts off what is left, says so, and waits for its decisions.
func TestDrainCutsOff(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	h := withHook(t, func() { close(inside); <-leave })
	failed := make(chan error)
	go func() {
		_, err := authpb.NewAuthorizationClient(h.envoy).Check(context.Background(), question("203.0.113.7", "GET", "/"))
		failed <- err
	}()
	<-inside
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(ctx) }()
	if err := <-failed; status.Code(err) != codes.Unavailable {
		t.Errorf("the call: %v", err)
	}
	if len(drained) > 0 {
		t.Error("drained beside a decision")
	}
	close(leave)
	if err := <-drained; err == nil || err.Error() != "ext_authz: 1 calls cut off" {
		t.Errorf("got %v", err)
	}
}

// A listener that breaks is told of by its address.
func TestServeTells(t *testing.T) {
	l := broken{}
	if err := New(nil, Options{}).Serve(l); err == nil || !strings.HasPrefix(err.Error(), "ext_authz broken:1: ") {
		t.Errorf("got %v", err)
	}
}

const (
	rounds  = 9  // of which the middle one counts
	askers  = 16 // at once
	each    = 20 // questions of each in a round
	timeout = 15 * time.Millisecond
	bound   = 20 * time.Millisecond
)

// hypothesis: a store that neither answers nor refuses holds up every answer. p99.9 in the server is under 20 ms,
// also before the breaker opens, with the store's default timeout. A busy machine makes a bare timer late, too:
// beside every question such a timer runs, and what it is late is taken off.
func TestFrozenStore(t *testing.T) {
	server := redistest.Start(t)
	shared, err := redis.New(redis.Options{URL: server.URL(), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxKeys: 1000})
	store := failover.New(shared, local, failover.Options{Timeout: timeout, Failures: 1 << 40, ProbeEvery: time.Hour})
	t.Cleanup(func() { store.Close(); _ = shared.Close(); local.Close() })
	h := over(t, enginetest.Snapshot(t, `{client: {from_right: 1, peers: [loopback]}, default: {limits: [{rate: 1000000/1h, per: client}]}}`, store))
	h.ask(question("203.0.113.7", "GET", "/"))
	server.Freeze()
	defer server.Thaw()
	var took []time.Duration
	waited := 0 // in so many rounds
	for range rounds {
		ours, bare := h.round()
		if ours >= timeout {
			waited++
		}
		took = append(took, ours-max(bare-timeout, 0))
	}
	slices.Sort(took)
	t.Logf("p99.9 of each round: %v", took)
	if got := took[rounds/2]; got > timed.Bound(bound) || waited == 0 {
		t.Errorf("p99.9 is %v, want at most %v; in %d rounds the store was waited for", got, bound, waited)
	}
	if e := h.journal.Recent(1)[0]; !e.Degraded {
		t.Errorf("recorded %+v, want degraded", e)
	}
}

// round has all askers ask, and run a timer beside, again and again. It returns the p99.9 of both.
func (h *house) round() (ours, bare time.Duration) {
	var asking sync.WaitGroup
	answers, timers := make([]time.Duration, askers*each), make([]time.Duration, askers*each)
	for asker := range askers {
		asking.Go(func() {
			for i := asker * each; i < (asker+1)*each; i++ {
				var both sync.WaitGroup
				both.Go(func() { answers[i] = h.answerTime() })
				both.Go(func() { began := time.Now(); time.Sleep(timeout); timers[i] = time.Since(began) })
				both.Wait()
			}
		})
	}
	asking.Wait()
	slices.Sort(answers)
	slices.Sort(timers)
	return answers[len(answers)*999/1000], timers[len(timers)*999/1000]
}

// answerTime is how long an answer takes in the server.
func (h *house) answerTime() time.Duration {
	began := time.Now()
	if _, err := h.Check(by("127.0.0.1"), question("203.0.113.7", "GET", "/")); err != nil {
		h.t.Error(err)
	}
	return time.Since(began)
}
