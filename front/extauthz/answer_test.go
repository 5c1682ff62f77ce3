package extauthz

import (
	"encoding/base64"
	"strings"
	"testing"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
)

const once = `
client: {from_right: 1, peers: [loopback]}
rules: [{name: search, path: /search, methods: [GET], limits: [{rate: 1/1h, per: client, algorithm: token_bucket}]}]
`

// A request that passes is given the rate limit fields for its answer, and nothing else happens to it.
func TestPassed(t *testing.T) {
	h := build(t, once)
	got := h.ask(question("203.0.113.7", "GET", "/search?q=x", "user-agent", "x"))
	want := map[string]string{"ratelimit-policy": `"search";q=1;w=3600`, "ratelimit": `"search";r=0;t=3600`}
	ok := got.GetOkResponse()
	if diff := cmp.Diff(want, fields(ok.GetResponseHeadersToAdd())); diff != "" || got.Status.Code != 0 || ok == nil {
		t.Errorf("%v; header fields (-want +got):\n%s", got, diff)
	}
	if len(ok.Headers)+len(ok.HeadersToRemove)+len(ok.QueryParametersToSet)+len(ok.QueryParametersToRemove) > 0 {
		t.Errorf("the request is changed: %v", ok)
	}
	entry := h.records(1)[0]
	entry.Time, entry.Duration = entry.Time.Truncate(0), 0
	if entry.Front != "ext_authz" || entry.Client != "203.0.113.7/32" || entry.Rule != "search" || entry.Action != "pass" || entry.Status != 200 || entry.Path != "/search" {
		t.Errorf("recorded %+v", entry)
	}
}

// A refused request is answered as by every other front: true status, Retry-After, fields, problem document.
func TestDenied(t *testing.T) {
	for _, action := range []string{"reject", "drop", "tarpit"} {
		h := build(t, strings.Replace(once, "limits:", "action: "+action+", limits:", 1))
		h.ask(question("203.0.113.7", "GET", "/search"))
		got := h.ask(question("203.0.113.7", "GET", "/search"))
		d := got.GetDeniedResponse()
		want := map[string]string{
			"content-type": "application/problem+json", "cache-control": "no-store", "retry-after": "3600",
			"access-control-expose-headers": "Retry-After, RateLimit, RateLimit-Policy",
			"ratelimit-policy":              `"search";q=1;w=3600`, "ratelimit": `"search";r=0;t=3600`, "x-envoy-ratelimited": "true",
		}
		if diff := cmp.Diff(want, fields(d.GetHeaders())); diff != "" {
			t.Errorf("%s: header fields (-want +got):\n%s", action, diff)
		}
		if codes.Code(got.Status.Code) != codes.ResourceExhausted || d.GetStatus().GetCode() != 429 || !strings.Contains(d.GetBody(), `"violated-policies":["search"]`) {
			t.Errorf("%s: got %v", action, got)
		}
		if e := h.records(2)[0]; e.Action != "reject" || e.Status != 429 {
			t.Errorf("%s: recorded %+v", action, e)
		}
	}
}

// Every refusal has a status of its own, and none is UNKNOWN, which Envoy takes for a fault; nor is a question
// that tells nothing a fault: it is denied.
func TestOtherRefusals(t *testing.T) {
	tests := map[string]struct {
		yaml     string
		question *authpb.CheckRequest
		code     codes.Code
		status   int
	}{
		"no attributes": {``, &authpb.CheckRequest{}, codes.InvalidArgument, 400},
		"no request":    {``, &authpb.CheckRequest{Attributes: &authpb.AttributeContext{}}, codes.InvalidArgument, 400},
		"no HTTP":       {``, &authpb.CheckRequest{Attributes: &authpb.AttributeContext{Request: &authpb.AttributeContext_Request{}}}, codes.InvalidArgument, 400},
		"no method":     {``, question("203.0.113.7", "", "/"), codes.InvalidArgument, 400},
		"NUL":           {``, question("203.0.113.7", "GET", "/%00"), codes.InvalidArgument, 400},
		"relative":      {``, question("203.0.113.7", "GET", "a"), codes.InvalidArgument, 400},
		"fragment":      {``, question("203.0.113.7", "GET", "/a#b"), codes.InvalidArgument, 400},
		"unresolved":    {"client: {from_right: 1, peers: [loopback], unresolved: reject}", question("", "GET", "/"), codes.PermissionDenied, 403},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := build(t, test.yaml)
			got := h.ask(test.question)
			if codes.Code(got.GetStatus().GetCode()) != test.code || int(got.GetDeniedResponse().GetStatus().GetCode()) != test.status {
				t.Errorf("got %v, want %v, %d", got, test.code, test.status)
			}
			if e := h.records(1)[0]; e.Status != test.status || e.Action != "reject" {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

// What is turned off touches nothing.
func TestDisabled(t *testing.T) {
	h := build(t, "enabled: false\ndefault: {limits: [{rate: 0/1h}]}")
	got := h.ask(question("203.0.113.7", "GET", "/", "x-weir-tag", "mine"))
	want := &authpb.CheckResponse{Status: &statuspb.Status{}, HttpResponse: &authpb.CheckResponse_OkResponse{OkResponse: &authpb.OkHttpResponse{}}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The service is told of tags and of shadow limits, and never by the client: what Weir sets replaces the client's
// copies, and everything else that some server would read as Weir's is removed. Envoy removes last, so that
// nothing that is set may be removed.
func TestTold(t *testing.T) {
	h := build(t, `
client: {from_right: 1, peers: [loopback]}
rules: [{name: tagged, path: /a, action: tag, tag_header: X-Over, limits: [{name: own, rate: 0/1h}, {name: trial, rate: 0/1h, per: ip, mode: shadow}]}]
`)
	got := h.ask(question("203.0.113.7", "GET", "/a", "x-over", "no", "x_over", "no", "x-weir-shadow", "no", "x_weir.plan", "no", "x-weir", "mine")).GetOkResponse()
	if diff := cmp.Diff(map[string]string{"x-over": "own", "x-weir-shadow": "trial"}, fields(got.GetHeaders())); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	removed := map[string]bool{}
	for _, name := range got.GetHeadersToRemove() {
		removed[name] = true
	}
	if diff := cmp.Diff(map[string]bool{"x_over": true, "x_weir.plan": true}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if e := h.records(1)[0]; e.Action != "tag" {
		t.Errorf("recorded %+v", e)
	}
}

// A gRPC client is refused by a status that it does not retry. Envoy answers gRPC requests itself, from header
// fields alone, and keeps the grpc-status and grpc-message that it is given there; a body would become the
// message.
func TestGRPC(t *testing.T) {
	for contentType, wantType := range map[string]string{
		"application/grpc": "application/grpc", "application/grpc+proto": "application/grpc",
		"application/grpc-web+proto": "application/grpc-web+proto", "application/grpc-web-text": "application/grpc-web-text+proto",
	} {
		h := build(t, strings.Replace(once, "[GET]", "[POST]", 1))
		h.ask(question("203.0.113.7", "POST", "/search"))
		d := h.ask(question("203.0.113.7", "POST", "/search", "content-type", contentType)).GetDeniedResponse()
		got := fields(d.GetHeaders())
		details, err := base64.RawStdEncoding.DecodeString(got["grpc-status-details-bin"])
		var s statuspb.Status
		if err != nil || proto.Unmarshal(details, &s) != nil || len(s.Details) != 2 {
			t.Fatalf("%s: details %q", contentType, got["grpc-status-details-bin"])
		}
		delete(got, "grpc-status-details-bin")
		const words = "The limit search (1/1h) is used up. Retry after 3600 s."
		want := map[string]string{
			"grpc-status": "8", "grpc-message": words, "grpc-retry-pushback-ms": "-1", "content-type": wantType, "cache-control": "no-store",
			"ratelimit-policy": `"search";q=1;w=3600`, "ratelimit": `"search";r=0;t=3600`, "x-envoy-ratelimited": "true",
		}
		if diff := cmp.Diff(want, got); diff != "" || d.GetBody() != "" || d.GetStatus().GetCode() != 429 {
			t.Errorf("%s: body %q, status %v, header fields (-want +got):\n%s", contentType, d.GetBody(), d.GetStatus(), diff)
		}
		var retry errdetails.RetryInfo
		if err := s.Details[0].UnmarshalTo(&retry); err != nil || s.Message != words {
			t.Fatalf("%s: %v, %q", contentType, err, s.Message)
		}
		if diff := cmp.Diff(durationpb.New(3600e9), retry.RetryDelay, protocmp.Transform()); diff != "" {
			t.Errorf("%s: retry (-want +got):\n%s", contentType, diff)
		}
	}
}

// What is in flight is given back at once, and what depends on the service's answer is never charged: neither is
// seen from here.
func TestWhatIsNotSeen(t *testing.T) {
	h := build(t, `
client: {from_right: 1, peers: [loopback]}
rules:
  - {name: slow, path: /slow, limits: [{in_flight: 1, per: client}]}
  - {name: login, path: /login, count: {only_statuses: [200, 401]}, limits: [{rate: 1/1h, per: client}]}
`)
	for _, path := range []string{"/slow", "/slow", "/login", "/login", "/login"} {
		if got := h.ask(question("203.0.113.7", "GET", path)); got.GetOkResponse() == nil {
			t.Errorf("%s: %v", path, got)
		}
	}
	h.records(5)
}

// The bytes of an answer are those that protobuf can carry.
func TestText(t *testing.T) {
	if got := text("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}
