package envoyrls

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is when tests begin. Every window but the second's has begun before.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// A house is a server with all below it, and a clock that stands still until it is set.
type house struct {
	*Server
	journal *journal.Journal
	clock   atomic.Int64 // since noon
}

// A plan is what a house is built of. Blanks are defaults.
type plan struct {
	yaml    string // of the domain; empty: no configuration
	files   map[string]string
	read    descriptors.Options
	options Options
	store   engine.Store // of Own
	policy  string       // the configuration of Weir
	bans    engine.Bans
}

func build(tb testing.TB, p plan) *house {
	tb.Helper()
	h := &house{journal: journal.New(journal.Options{Rules: []string{ruleOf("d")}})}
	if p.store == nil {
		own := memory.New(memory.Options{MaxKeys: 100_000})
		tb.Cleanup(own.Close)
		p.store = own
	}
	snapshot := enginetest.Snapshot(tb, p.policy, p.store)
	snapshot.Bans = p.bans
	e := engine.New(snapshot, h.journal, func() time.Time { return noon.Add(time.Duration(h.clock.Load())) })
	h.Server = New(e, p.options)
	tb.Cleanup(func() {
		if err := h.Drain(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	if p.files == nil && p.yaml != "" {
		p.files = map[string]string{"c.yaml": p.yaml}
	}
	if set := parse(tb, p.files, p.read); set != nil {
		h.Set(set)
	}
	return h
}

// parse returns the set of files, or nil if they are refused.
func parse(tb testing.TB, files map[string]string, o descriptors.Options) *descriptors.Set {
	tb.Helper()
	if len(files) == 0 {
		return nil
	}
	var sources []descriptors.Source
	for name, text := range files {
		sources = append(sources, descriptors.Source{File: name, Content: []byte(text)})
	}
	set, problems := descriptors.Parse(sources, o)
	if set == nil {
		tb.Log(problems)
	}
	return set
}

// at sets the clock to d after noon.
func (h *house) at(d time.Duration) { h.clock.Store(int64(d)) }

// dial serves h on the loopback, and returns a client.
func (h *house) dial(tb testing.TB) pb.RateLimitServiceClient {
	return pb.NewRateLimitServiceClient(h.connect(tb))
}

func (h *house) connect(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Close()
		_ = h.Drain(context.Background()) // it says what the house's own says
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return c
}

// ask asks without a wire.
func (h *house) ask(tb testing.TB, req *pb.RateLimitRequest) *pb.RateLimitResponse {
	tb.Helper()
	answer, err := h.ShouldRateLimit(context.Background(), req)
	if err != nil {
		tb.Fatal(err)
	}
	return answer
}

// passes counts how many of n requests, one after the other, are OK.
func (h *house) passes(tb testing.TB, n int, req *pb.RateLimitRequest) (passed int) {
	tb.Helper()
	for range n {
		if h.ask(tb, req).OverallCode == pb.RateLimitResponse_OK {
			passed++
		}
	}
	return passed
}

// descriptor makes one of keys and values in turn.
func descriptor(pairs ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func request(all ...*ratelimitv3.RateLimitDescriptor) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "d", Descriptors: all}
}

// postJSON asks through /json, and returns the HTTP status and the answer, which is nil if there is none.
func (h *house) postJSON(tb testing.TB, body []byte) (int, *pb.RateLimitResponse) {
	tb.Helper()
	w := httptest.NewRecorder()
	h.HTTP().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", bytes.NewReader(body)))
	if w.Header().Get("Content-Type") != "application/json" {
		return w.Code, nil
	}
	answer := new(pb.RateLimitResponse)
	if err := protojson.Unmarshal(w.Body.Bytes(), answer); err != nil {
		tb.Fatal(err)
	}
	return w.Code, answer
}

// scrape returns the lines of /metrics that begin with prefix.
func (h *house) scrape(prefix string) (lines []string) {
	w := httptest.NewRecorder()
	h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// decode reads JSON into v.
func decode(tb testing.TB, r io.Reader, v any) {
	tb.Helper()
	if err := json.NewDecoder(r).Decode(v); err != nil {
		tb.Fatal(err)
	}
}
