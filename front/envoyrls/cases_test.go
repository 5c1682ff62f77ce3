package envoyrls

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls/environment"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/store/redis"
)

// What envoyproxy/ratelimit was seen to do.
type caseFile struct {
	Groups []caseGroup
}

type caseGroup struct {
	Name      string
	Env       map[string]string
	Files     map[string]string
	Steps     []caseStep
	StoreKeys map[string]int `json:"store_keys"`
	Metrics   []string
}

type caseStep struct {
	Request json.RawMessage
	HTTP    int
	Expect  *caseAnswer
	Times   int
	Why     string
}

type caseAnswer struct {
	Overall  string
	Statuses []caseStatus
	Headers  map[string]string
	Metadata map[string]any
}

type caseStatus struct {
	Code      string
	Remaining uint32
	Limit     *uint32
	Unit      string
	Name      string
	HasReset  bool `json:"has_reset"`
}

// The deliberate differences, as docs/envoy-ratelimit.md lists them.
var keptMetadata = map[string]bool{ // by the step's why
	"metadata is lost when value_to_metric changes the metric name": true,
	"and with detailed_metric":                                      true,
}

func readCases(tb testing.TB) caseFile {
	tb.Helper()
	f, err := os.Open("testdata/envoy-ratelimit.json")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var c caseFile
	decode(tb, f, &c)
	return c
}

// An asker puts a case's question, and returns the HTTP status and the answer, nil if there is none.
type asker func(t *testing.T, req json.RawMessage) (int, *pb.RateLimitResponse)

func overJSON(h *house) asker {
	return func(t *testing.T, req json.RawMessage) (int, *pb.RateLimitResponse) { return h.postJSON(t, req) }
}

func overGRPC(t *testing.T, h *house) asker {
	client := h.dial(t)
	return func(t *testing.T, text json.RawMessage) (int, *pb.RateLimitResponse) {
		req := new(pb.RateLimitRequest)
		if err := protojson.Unmarshal(text, req); err != nil {
			t.Fatal(err)
		}
		answer, err := client.ShouldRateLimit(context.Background(), req)
		switch {
		case err != nil && (status.Code(err) == codes.InvalidArgument || status.Code(err) == codes.FailedPrecondition):
			return 400, nil
		case err != nil:
			t.Fatal(err)
		case answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT:
			return 429, answer
		}
		return 200, answer
	}
}

// Every case has the same codes, statuses and headers, over either wire and with either store, and in Redis
// the same keys.
func TestCases(t *testing.T) {
	for _, g := range readCases(t).Groups {
		for _, wire := range []string{"grpc", "json"} {
			t.Run(fmt.Sprintf("%s/memory/%s", g.Name, wire), func(t *testing.T) {
				g.run(t, NewMemory(MemoryOptions{Spare: g.environment(t).StopCacheKeyIncrementWhenOverlimit}), wire)
			})
			t.Run(fmt.Sprintf("%s/redis/%s", g.Name, wire), func(t *testing.T) {
				server := redistest.Start(t)
				e := g.environment(t)
				g.run(t, window(t, server, redis.WindowOptions{
					Spare: e.StopCacheKeyIncrementWhenOverlimit, Remember: e.LocalCacheSizeInBytes,
					Jitter: time.Duration(e.ExpirationJitterMaxSeconds) * time.Second,
				}), wire)
				g.checkKeys(t, server)
			})
		}
	}
}

// environment is the group's, as the program was started with it.
func (g *caseGroup) environment(t *testing.T) environment.Settings {
	t.Helper()
	environ := []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true"}
	for name, value := range g.Env {
		environ = append(environ, name+"="+value)
	}
	e, problems := environment.Read(environ)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	return e
}

// window returns what counts on server. It has time on a busy machine.
func window(tb testing.TB, server *redistest.Server, o redis.WindowOptions) *redis.Window {
	tb.Helper()
	s, err := redis.New(redis.Options{URL: server.URL(), Timeout: 5 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return redis.NewWindow(s, o)
}

func (g *caseGroup) run(t *testing.T, store weir.Store, wire string) {
	e := g.environment(t)
	h := build(t, plan{files: g.Files, read: e.Options(), options: Options{Store: store, Settings: SettingsOf(&e)}})
	ask := overJSON(h)
	if wire == "grpc" {
		ask = overGRPC(t, h)
	}
	for i, step := range g.Steps {
		var http int
		var answer *pb.RateLimitResponse
		for range max(step.Times, 1) {
			http, answer = ask(t, step.Request)
		}
		if http != step.HTTP {
			t.Errorf("step %d (%s): HTTP status %d, want %d", i, step.Why, http, step.HTTP)
			continue
		}
		step.check(t, i, answer)
	}
	g.checkMetrics(t, h)
}

// check compares an answer with the step's.
func (step *caseStep) check(t *testing.T, i int, answer *pb.RateLimitResponse) {
	t.Helper()
	if (answer == nil) != (step.Expect == nil) {
		t.Fatalf("step %d (%s): answer %v, want %v", i, step.Why, answer, step.Expect)
	}
	if answer == nil {
		return
	}
	want, got := *step.Expect, shown(answer)
	reset := ""
	for name, value := range got.Headers {
		if strings.HasSuffix(name, "-Reset") {
			reset, got.Headers[name] = value, "<reset>"
		}
	}
	if keptMetadata[step.Why] {
		want.Metadata = map[string]any{"tier": "gold"}
	}
	if d := cmp.Diff(&want, got); d != "" {
		t.Errorf("step %d (%s) (-want +got):\n%s", i, step.Why, d)
	}
	if n, err := strconv.Atoi(reset); reset != "" && (err != nil || n < 1) {
		t.Errorf("step %d (%s): reset %q", i, step.Why, reset)
	}
}

// shown is an answer as the case file tells it.
func shown(a *pb.RateLimitResponse) *caseAnswer {
	s := &caseAnswer{Overall: a.OverallCode.String()}
	for _, st := range a.Statuses {
		c := caseStatus{Code: st.Code.String(), Remaining: st.LimitRemaining, HasReset: st.DurationUntilReset != nil}
		if l := st.CurrentLimit; l != nil {
			c.Limit, c.Unit, c.Name = &l.RequestsPerUnit, l.Unit.String(), l.Name
		}
		s.Statuses = append(s.Statuses, c)
	}
	for _, h := range a.ResponseHeadersToAdd {
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[h.Key] = h.Value
	}
	if of := a.DynamicMetadata.GetFields()["metadata"].GetStructValue(); of != nil {
		s.Metadata = of.AsMap()
	}
	return s
}

// checkKeys compares what is in Redis.
func (g *caseGroup) checkKeys(t *testing.T, server *redistest.Server) {
	t.Helper()
	got := map[string]int{}
	for _, key := range server.Do("KEYS", "*").([]any) {
		name := key.(string)
		value, err := strconv.Atoi(server.Do("GET", name).(string))
		if err != nil {
			t.Fatal(err)
		}
		cut := strings.LastIndexByte(name, '_')
		start, err := strconv.ParseInt(name[cut+1:], 10, 64)
		if err != nil || start > noon.Unix() || noon.Unix()-start > 366*24*3600 {
			t.Errorf("%s does not end in the window's start", name)
		}
		got[name[:cut]+"_<window start>"] = value
		if ttl := server.Do("TTL", name).(int); ttl < 1 {
			t.Errorf("%s has no time to live", name)
		}
	}
	want := g.StoreKeys
	if want == nil {
		want = map[string]int{}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
}

func (g *caseGroup) checkMetrics(t *testing.T, h *house) {
	t.Helper()
	if g.Metrics == nil {
		return
	}
	got := h.scrape("ratelimit_service_rate_limit_")
	slices.Sort(got)
	if d := cmp.Diff(g.Metrics, got); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}
