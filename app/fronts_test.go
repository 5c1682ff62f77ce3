package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirgate/weir/internal/bounded"
	"github.com/weirgate/weir/internal/timed"
)

// addr returns where the front of that name listens.
func (h *house) addr(name string) string {
	h.t.Helper()
	for _, f := range h.fronts {
		if f.name == name {
			return f.listener.Addr().String()
		}
	}
	h.t.Fatalf("there is no front %s", name)
	return ""
}

// dial returns a connection to the gRPC front of that name.
func (h *house) dial(name string) *grpc.ClientConn {
	h.t.Helper()
	c, err := grpc.NewClient(h.addr(name), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

const everyFront = basics + `
forward_auth: {listen: "127.0.0.1:0"}
rls: {listen: "127.0.0.1:0", config: "${DESCRIPTORS}"}
ext_authz: {listen: "127.0.0.1:0"}
spoe: {listen: "127.0.0.1:0"}
client: {path: [{name: edge, cidrs: [127.0.0.0/8]}]}
default: {limits: [{rate: 4/1h, per: client}]}
`

const twoAYear = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 2}}]\n"

// withDescriptors is a plan of every front, and the file of its descriptors.
func withDescriptors(t *testing.T, text string) (plan, string) {
	file := filepath.Join(t.TempDir(), "d.yaml")
	write(t, file, text)
	return plan{yaml: everyFront, env: []string{"DESCRIPTORS=" + file}}, file
}

// question asks ext_authz about a request of a client that is connected to Envoy.
func question(client, path string) *authpb.CheckRequest {
	q := new(authpb.CheckRequest)
	text := fmt.Sprintf(`{"attributes": {"source": {"address": {"socketAddress": {"address": %q, "portValue": 1}}},
		"request": {"http": {"method": "GET", "path": %q, "host": "a", "scheme": "http"}}}}`, client, path)
	if err := protojson.Unmarshal([]byte(text), q); err != nil {
		panic(err)
	}
	return q
}

// One client has one limit through the proxy, forward-auth, ext_authz and HAProxy's agent, and one record for each
// request.
func TestFrontsShareACount(t *testing.T) {
	p, _ := withDescriptors(t, twoAYear)
	h := build(t, p)
	const client = "203.0.113.9"
	authz := authpb.NewAuthorizationClient(h.dial("ext_authz.listen"))
	agent := h.callAgent()
	var got []int
	for range 2 {
		a, err := ask(http.DefaultClient, h.url("/"), "X-Forwarded-For", client)
		got = append(got, a.status)
		b, err2 := ask(http.DefaultClient, "http://"+h.addr("forward_auth.listen")+"/auth/caddy", "X-Forwarded-For", client,
			"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-Host", "a", "X-Forwarded-Proto", "http")
		got = append(got, b.status)
		c, err3 := authz.Check(t.Context(), question(client, "/"))
		got = append(got, int(c.GetDeniedResponse().GetStatus().GetCode()), agent.status(client, "/"))
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(err, err2, err3)
		}
	}
	if fmt.Sprint(got) != "[200 200 0 200 429 429 429 429]" {
		t.Errorf("got %v: want four that pass", got)
	}
	for front, want := range map[string]float64{"proxy": 1, "forward_auth": 1, "ext_authz": 1, "spoe": 1} {
		series := fmt.Sprintf(`weir_decisions_total{action="pass",front=%q,rule="default"}`, front)
		eventually(t, series, func() bool { return h.metric(series) >= want }) // an agent answers before it records
		if got := h.metric(series); got != want {
			t.Errorf("%s: %v passed by the metrics, want %v", front, got, want)
		}
	}
}

func oneOf(value string) *pb.RateLimitRequest {
	q := new(pb.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(`{"domain": "d", "descriptors": [{"entries": [{"key": "a", "value": "`+value+`"}]}]}`), q); err != nil {
		panic(err)
	}
	return q
}

// One port serves gRPC, its health, and HTTP; they share a count.
func TestRateLimitService(t *testing.T) {
	p, _ := withDescriptors(t, twoAYear)
	h := build(t, p)
	conn, port := h.dial("rls.listen"), "http://"+h.addr("rls.listen")
	rls := pb.NewRateLimitServiceClient(conn)
	var got []string
	for range 2 {
		a, err := rls.ShouldRateLimit(t.Context(), oneOf("x"))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a.OverallCode.String())
		res, err := http.Post(port+"/json", "application/json", strings.NewReader(protojson.Format(oneOf("x"))))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		got = append(got, res.Status)
	}
	if fmt.Sprint(got) != "[OK 200 OK OVER_LIMIT 429 Too Many Requests]" {
		t.Errorf("got %v", got)
	}
	health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
	if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("gRPC health: %v, %v", health, err)
	}
	for path, want := range map[string]string{"/healthcheck": "OK", "/metrics": `ratelimit_service_rate_limit_over_limit{domain="d",key1="a"} 2`} {
		if a, err := ask(http.DefaultClient, port+path); err != nil || a.status != 200 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %q, %v; want %q", path, a.status, a.body, err, want)
		}
	}
}

// Descriptors that change take effect; counters stay. Descriptors that are wrong change nothing.
func TestDescriptorsAreFollowed(t *testing.T) {
	p, file := withDescriptors(t, twoAYear)
	h := build(t, p)
	rls := pb.NewRateLimitServiceClient(h.dial("rls.listen"))
	limit := func() uint32 {
		a, err := rls.ShouldRateLimit(t.Context(), oneOf("x"))
		if err != nil {
			t.Fatal(err)
		}
		return a.Statuses[0].GetCurrentLimit().GetRequestsPerUnit()
	}
	if got := limit(); got != 2 {
		t.Fatalf("limit %d, want 2", got)
	}
	rename(t, file, strings.Replace(twoAYear, "unit: 2", "unit: 7", 1))
	eventually(t, "the new limit", func() bool { return limit() == 7 })
	rename(t, file, "domain: [\n")
	eventually(t, "the refusal", func() bool { return len(h.logs.lines("descriptors refused")) == 1 })
	if got := limit(); got != 7 {
		t.Errorf("limit %d after a broken file, want 7", got)
	}
}

// Descriptors that cannot be used keep Weir from starting, and say where they are wrong.
func TestDescriptorsRefused(t *testing.T) {
	p, file := withDescriptors(t, "domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight, requests_per_unit: 2}}]\n")
	o, _ := options(t, p)
	_, err := Start(o)
	var refused *ConfigError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), file+":2:") || !strings.Contains(err.Error(), "fortnight") {
		t.Errorf("got %v", err)
	}
}

// What has no effect in descriptors is a warning, as the case file's accepted configurations have it: a check names its
// line, and a start logs it and serves.
func TestDescriptorsWithoutEffect(t *testing.T) {
	p, file := withDescriptors(t, twoAYear+"---\ndomain: e\n")
	h := build(t, p)
	if a, err := pb.NewRateLimitServiceClient(h.dial("rls.listen")).ShouldRateLimit(t.Context(), oneOf("x")); err != nil || a.Statuses[0].GetCurrentLimit().GetRequestsPerUnit() != 2 {
		t.Errorf("got %v, %v: want a limit of 2", a, err)
	}
	eventually(t, "the warning", func() bool { return len(h.logs.lines("descriptors")) == 2 }) // it, and that they are in force
	l := Load(h.options)
	if all := l.All(); l.Err() != nil || len(all) != 1 || !all[0].Warning || all[0].File != file {
		t.Errorf("checked with %v", all)
	}
}

// In the place of envoyproxy/ratelimit, or where FORCE_START_WITHOUT_INITIAL_CONFIG says so, descriptors that cannot be
// used are no reason not to start, as there: nothing is healthy or answered until their files are mended.
func TestStartsWithoutDescriptors(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), twoAYear)
	write(t, filepath.Join(root, "b.yaml"), twoAYear) // two files of one domain
	written := new(logs)
	o := Options{Log: written, Version: "test", Env: []string{
		"RUNTIME_ROOT=" + root, "RUNTIME_APPDIRECTORY=", "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + freePort(t), "HOST=127.0.0.1", "PORT=" + freePort(t),
		"DEBUG_PORT=" + freePort(t), "WEIR_LOG_LEVEL=info",
	}}
	if err := Load(o).Err(); err == nil {
		t.Error("a check finds nothing wrong")
	}
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	h := run(t, a, o, written)
	conn, port := h.dial("rls.listen"), "http://"+h.addr("rls.listen")
	rls := pb.NewRateLimitServiceClient(conn)
	if _, err := rls.ShouldRateLimit(t.Context(), oneOf("x")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v, want FailedPrecondition", err)
	}
	res, err := http.Post(port+"/json", "application/json", strings.NewReader(protojson.Format(oneOf("x"))))
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != 400 {
		t.Errorf("/json: %s, want 400", res.Status)
	}
	if a, err := ask(http.DefaultClient, port+"/healthcheck"); err != nil || a.status != 500 {
		t.Errorf("health: %v, %v; want 500", a, err)
	}
	eventually(t, "the refusal", func() bool { return len(written.lines("descriptors refused")) == 1 })
	if err := os.Remove(filepath.Join(root, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the limit", func() bool { _, err := rls.ShouldRateLimit(t.Context(), oneOf("x")); return err == nil })
}

// That holds for a configuration file, too, where the variable says so; but a folder that is not there is a fault.
func TestForcedStart(t *testing.T) {
	p, file := withDescriptors(t, "domain: [\n")
	p.env = append(p.env, "RUNTIME_ROOT="+t.TempDir(), "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	if a := build(t, p).adminGet("/livez"); a.status != 200 {
		t.Errorf("livez: %v", a)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	o, _ := options(t, p)
	if _, err := Start(o); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without the file: %v", err)
	}
}

// With the environment of envoyproxy/ratelimit and no file, Weir serves in its place.
func TestInPlaceOfRatelimit(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "d.yaml"), twoAYear)
	_, grpcPort, _ := net.SplitHostPort(free(t))
	_, httpPort, _ := net.SplitHostPort(free(t))
	_, debugPort, _ := net.SplitHostPort(free(t))
	metrics := free(t)
	written := new(logs)
	o := Options{Log: written, Version: "test", Env: []string{
		"RUNTIME_ROOT=" + root, "RUNTIME_APPDIRECTORY=", "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + grpcPort, "HOST=127.0.0.1", "PORT=" + httpPort,
		"DEBUG_PORT=" + debugPort, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=" + metrics, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "WEIR_LOG_LEVEL=info",
	}}
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	h := run(t, a, o, written)
	answer, err := pb.NewRateLimitServiceClient(h.dial("rls.listen")).ShouldRateLimit(t.Context(), oneOf("x"))
	if err != nil || answer.OverallCode != pb.RateLimitResponse_OK || len(answer.ResponseHeadersToAdd) != 3 {
		t.Errorf("got %v, %v: want OK with three headers", answer, err)
	}
	if a, err := ask(http.DefaultClient, "http://127.0.0.1:"+httpPort+"/healthcheck"); err != nil || a.body != "OK" {
		t.Errorf("health: %v, %v", a, err)
	}
	if a, err := ask(http.DefaultClient, "http://"+metrics+"/metrics"); err != nil || !strings.Contains(a.body, "ratelimit_service_total_requests") {
		t.Errorf("metrics: %v, %v", a, err)
	}
	if a := h.adminGet("/livez"); a.status != 200 {
		t.Errorf("admin: %v", a)
	}
}

// A front holds so many connections and closes further ones at once, silent ones among them, which a count and a line
// tell of; who has a connection is answered on it.
func TestConnectionsAreBounded(t *testing.T) {
	p, _ := withDescriptors(t, twoAYear)
	o, written := options(t, p)
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]string{"forward_auth.listen": tooManyAsks, "rls.listen": tooManyRLS, "ext_authz.listen": tooManyAuthz, "spoe.listen": tooManySPOP}
	for _, f := range a.fronts {
		if bounds[f.name] != "" {
			l := f.listener.(*bounded.Listener)
			if l.Most != a.room.asks {
				t.Errorf("%s: %d are held, want %d", f.name, l.Most, a.room.asks)
			}
			l.Most = 2
		}
	}
	h := run(t, a, o, written)
	for name, fault := range bounds {
		var held []net.Conn
		for range 3 {
			c, err := net.Dial("tcp", h.addr(name))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			held = append(held, c)
		}
		_ = held[2].SetReadDeadline(time.Now().Add(4 * time.Second)) // before anybody asks what the silent ones want
		if _, err := held[2].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the third connection is open: %v", name, err)
		}
		series := fmt.Sprintf(`weir_refused_connections_total{fault=%q}`, fault)
		eventually(t, series, func() bool { return h.metric(series) == 1 })
		held[0].Close()
		if name == "rls.listen" {
			eventually(t, "an answer in the place of who left", func() bool {
				_, err := pb.NewRateLimitServiceClient(h.dial(name)).ShouldRateLimit(t.Context(), oneOf("x"))
				return err == nil
			})
		}
	}
	eventually(t, "the lines", func() bool { return len(h.logs.lines("refused connection")) >= len(bounds) })
}

// A drained Weir ends the calls of every front well, and then none of them is open.
func TestStopDrainsEveryFront(t *testing.T) {
	p, _ := withDescriptors(t, twoAYear)
	h := build(t, p)
	idle, err := net.Dial("tcp", h.addr("rls.listen")) // says nothing, as some health checks do
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	rls := pb.NewRateLimitServiceClient(h.dial("rls.listen"))
	if _, err := rls.ShouldRateLimit(t.Context(), oneOf("x")); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := h.end(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if took := time.Since(began); took > timed.Bound(4*time.Second) {
		t.Errorf("the drain took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := rls.ShouldRateLimit(ctx, oneOf("x")); status.Code(err) != codes.Unavailable {
		t.Errorf("after the drain: %v", err)
	}
	for _, f := range h.fronts {
		if !refuses("tcp", f.listener.Addr().String()) {
			t.Errorf("%s is open", f.name)
		}
	}
}
