package xds

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// The first request says who asks; each configuration is taken whole, and the server is told so.
func TestPushIsTaken(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	c := start(t, l, nil)
	k := run(t, Options{Server: l.Addr().String(), Metadata: map[string]string{"zone": "a"}, Headers: map[string]string{"x-tenant": "7"}})
	first := c.replies(t, 1)
	wantReply(t, first, "", "")
	n := first.GetNode()
	if n.GetId() != "gateway" || n.GetMetadata().GetFields()["zone"].GetStringValue() != "a" || c.headers.Get("x-tenant")[0] != "7" {
		t.Errorf("node %v, headers %v", n, c.headers)
	}
	if got := k.limit("d"); got != -3 {
		t.Errorf("%d in force before there is anything", got)
	}

	c.push(t, "1", domain("d", 3), domain("e", 4))
	wantReply(t, c.replies(t, 2), "1", "")
	if d, e := k.limit("d"), k.limit("e"); d != 3 || e != 4 {
		t.Errorf("limits %d and %d, want 3 and 4", d, e)
	}
	c.push(t, "2", domain("e", 5)) // d is gone
	wantReply(t, c.replies(t, 3), "2", "")
	if d, e := k.limit("d"), k.limit("e"); d != -2 || e != 5 {
		t.Errorf("limits %d and %d, want none and 5", d, e)
	}
	c.push(t, "3") // everything is gone
	wantReply(t, c.replies(t, 4), "3", "")
	if e := k.limit("e"); e != -2 {
		t.Errorf("limit %d, want no domain", e)
	}
}

// A configuration that is wrong is refused with the reason and the version before it, which stays in
// force; what is right again is taken.
func TestBadPushIsRefused(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	c := start(t, l, nil)
	k := run(t, Options{Server: l.Addr().String()})
	c.push(t, "1", domain("d", 3))
	wantReply(t, c.replies(t, 2), "1", "")

	bad := domain("d", 9)
	bad.Descriptors[0].RateLimit.Unit = ratelimit.RateLimitUnit_UNKNOWN
	bad.Descriptors = append(bad.Descriptors, &ratelimit.RateLimitDescriptor{})
	c.push(t, "2", bad)
	reason := "r-d: descriptors[0].rate_limit.unit: missing: want second, minute, hour, day, week, month or year; " +
		"r-d: descriptors[1].key: missing: want the key that the proxy asks with, as in key: remote_address"
	wantReply(t, c.replies(t, 3), "1", reason)
	if got := k.limit("d"); got != 3 {
		t.Errorf("limit %d, want that of the version before", got)
	}
	// The server sends it again at once. Each answer is then held back a little longer.
	for i := range 12 {
		if got, want := k.paused(t), time.Duration(min(i+1, 10))*time.Second; got != want {
			t.Errorf("answer %d is held back %v, want %v", i, got, want)
		}
		if i == 11 {
			c.push(t, "3", domain("d", 4), domain("e", 1))
		}
		k.again <- true
		c.replies(t, 4+i)
	}
	wantReply(t, c.replies(t, 16), "3", "")
	if got := k.limit("d"); got != 4 {
		t.Errorf("limit %d, want 4", got)
	}
	if diff := cmp.Diff([]string{reason}, k.refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// One domain in two resources is refused, unless domains are merged.
func TestMergedDomains(t *testing.T) {
	for _, merge := range []bool{false, true} {
		l := listen(t, "127.0.0.1:0")
		c := start(t, l, nil)
		k := run(t, Options{Server: l.Addr().String(), Descriptors: descriptors.Options{MergeDomains: merge}})
		other := domain("d", 1)
		other.Name, other.Descriptors[0].Key = "other", "q"
		c.push(t, "1", domain("d", 3), other)
		r := c.replies(t, 2)
		if refused := r.GetErrorDetail() != nil; refused == merge || (k.limit("d") == 3) != merge {
			t.Errorf("merging %v: %v", merge, r)
		}
	}
}

// What apply refuses is refused, with its reason.
func TestApplyMayRefuse(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	c := start(t, l, nil)
	k := run(t, Options{Server: l.Addr().String()})
	c.push(t, "1", domain("d", 3))
	wantReply(t, c.replies(t, 2), "1", "")
	k.mu.Lock()
	k.reject = errors.New("too many limits")
	k.mu.Unlock()
	c.push(t, "2", domain("d", 5))
	wantReply(t, c.replies(t, 3), "1", "too many limits")
}

// A server that goes away takes nothing with it. It is tried again after a pause that grows, and asked
// for what comes after the last version; a connection that worked makes the pause short again.
func TestServerRestarts(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	addr := l.Addr().String()
	c := start(t, l, nil)
	k := run(t, Options{Server: addr})
	c.push(t, "1", domain("d", 3))
	wantReply(t, c.replies(t, 2), "1", "")
	c.grpc.Stop()

	// Half of the jitter of 0.5 is added to 10, 20, 40, and at last at most 60 s in sum.
	for i, want := range []time.Duration{12500, 25000, 50000, 50000} {
		if got := k.paused(t); got != want*time.Millisecond {
			t.Errorf("pause %d is %v, want %v", i, got, want*time.Millisecond)
		}
		if got := k.limit("d"); got != 3 {
			t.Errorf("limit %d in force while the server is away, want 3", got)
		}
		if i < 3 {
			k.again <- true
		}
	}
	c = start(t, listen(t, addr), nil)
	c.push(t, "2", domain("d", 4))
	k.again <- true
	wantReply(t, c.replies(t, 2), "2", "")
	wantReply(t, c.first(), "1", "") // what was in force
	if got := k.limit("d"); got != 4 {
		t.Errorf("limit %d, want 4", got)
	}
	c.grpc.Stop()
	if got := k.paused(t); got != 12500*time.Millisecond {
		t.Errorf("pause after a connection that worked: %v", got)
	}
}

// Pauses stay between the first and the last, whatever the dice say and whoever asks.
func TestPausesAreBounded(t *testing.T) {
	for _, o := range []Options{{}, {Jitter: -1}, {Jitter: 1}, {Initial: time.Minute}, {Initial: time.Second, Max: time.Hour, Jitter: 9}} {
		for _, dice := range []float64{0, 0.999999} {
			c := client{Options: o.withDefaults()}
			c.random = func() float64 { return dice }
			before := time.Duration(0)
			for failures := range 100 {
				d := c.pause(failures)
				if d < c.Initial || d > c.Max || d < before {
					t.Errorf("%+v: pause %d is %v after %v", o, failures, d, before)
				}
				before = d
			}
		}
	}
}

// A pause is as long as it says, and ends with its context.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		wait(t.Context(), time.Minute)
		if got := time.Since(began); got != time.Minute {
			t.Errorf("waited %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		wait(ctx, time.Minute)
		if got := time.Since(began); got != time.Second {
			t.Errorf("waited %v after the context", got)
		}
	})
}

// A target that names no server is an error, and not tried for ever.
func TestBadTarget(t *testing.T) {
	err := Run(t.Context(), Options{Server: "dns://%zz"}, func(*descriptors.Set) error { return nil })
	if err == nil || !strings.HasPrefix(err.Error(), "xds dns://%zz: ") {
		t.Errorf("%v", err)
	}
}

// Everything that a resource says is heard, also what the published definition does not know yet.
func TestResources(t *testing.T) {
	quota := &ratelimit.RateLimitDescriptor{Key: "k", Value: "v"}
	unknown := protowire.AppendTag(nil, 9, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "something newer")
	unknown = protowire.AppendTag(unknown, quotaField, protowire.VarintType)
	quota.ProtoReflect().SetUnknown(protowire.AppendVarint(unknown, 1))
	quota.RateLimit = &ratelimit.RateLimitPolicy{Unit: 7, RequestsPerUnit: 9, Name: "n", Replaces: []*ratelimit.RateLimitReplace{{Name: "o"}}}
	quota.ShadowMode, quota.DetailedMetric = true, true
	all := []*ratelimit.RateLimitConfig{{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{Key: "p", Descriptors: []*ratelimit.RateLimitDescriptor{quota}}}}}
	set, err := packed(t, all...)
	if err != nil {
		t.Fatal(err)
	}
	var m descriptors.Match
	set.Find("d", []descriptors.Entry{{Key: "p", Value: "1"}, {Key: "k", Value: "v"}}, &m)
	want := &descriptors.Limit{Name: "n", Unit: descriptors.Week, PerUnit: 9, Replaces: []string{"o"}, Shadow: true, Quota: true, Detailed: true,
		Window: 7 * 24 * time.Hour, Metric: "d.p.k_v", Place: "resource 0"}
	if diff := cmp.Diff(want, m.Limit); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for unit, want := range map[ratelimit.RateLimitUnit]descriptors.Unit{1: descriptors.Second, 2: descriptors.Minute, 3: descriptors.Hour,
		4: descriptors.Day, 5: descriptors.Month, 6: descriptors.Year, 7: descriptors.Week} {
		c := domain("d", 1)
		c.Descriptors[0].RateLimit.Unit = unit
		set, err := packed(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if set.Find("d", []descriptors.Entry{{Key: "k", Value: "v"}}, &m); m.Limit.Unit != want {
			t.Errorf("unit %d is %v, want %v", unit, m.Limit.Unit, want)
		}
	}
	c := domain("d", 1)
	c.Descriptors[0].RateLimit = &ratelimit.RateLimitPolicy{Unlimited: true}
	if set, err = packed(t, c); err != nil {
		t.Errorf("unlimited: %v", err)
	}
	if set.Find("d", []descriptors.Entry{{Key: "k"}}, &m); !m.Limit.Unlimited {
		t.Errorf("%+v, want unlimited", m.Limit)
	}
}

// packed reads configurations as they come over the wire.
func packed(t *testing.T, all ...*ratelimit.RateLimitConfig) (*descriptors.Set, error) {
	t.Helper()
	var resources []*anypb.Any
	for _, r := range all {
		a, err := anypb.New(r)
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, a)
	}
	c := client{Options: Options{}.withDefaults()}
	return c.read(resources)
}

// A resource of another kind, or a broken one, refuses all; the reason is one line of bounded length.
func TestBadResources(t *testing.T) {
	c := client{Options: Options{}.withDefaults()}
	other, err := anypb.New(wrapperspb.String("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*anypb.Any{other, {TypeUrl: typeURL, Value: []byte{0xff}}, nil} {
		if set, err := c.read([]*anypb.Any{r}); set != nil || err == nil || !strings.HasPrefix(err.Error(), "resource 0: ") {
			t.Errorf("%v: %v", r, err)
		}
	}
	many := domain(strings.Repeat("d", 5000), 1)
	many.Name = "two\nlines" + strings.Repeat("é", 3000)
	for range 5000 {
		many.Descriptors = append(many.Descriptors, &ratelimit.RateLimitDescriptor{})
	}
	if _, err := packed(t, many); err == nil || len(err.Error()) > maxReason || strings.Contains(err.Error(), "\n") {
		t.Errorf("%.200v", err)
	}
}

// Whatever bytes a server sends, they are a set or refused.
func FuzzResource(f *testing.F) {
	good, err := anypb.New(domain("d", 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.GetValue())
	f.Add([]byte("\x12\x01d\x1a\x05\x0a\x01k\x38\x01"))
	f.Fuzz(func(t *testing.T, value []byte) {
		c := client{Options: Options{}.withDefaults()}
		set, err := c.read([]*anypb.Any{{TypeUrl: typeURL, Value: value}})
		if (set == nil) != (err != nil) {
			t.Errorf("set %v, %v", set, err)
		}
	})
}
