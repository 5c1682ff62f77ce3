package fronttest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/front/extauthz"
	"github.com/weirgate/weir/grpcmw"
	"github.com/weirgate/weir/internal/credential"
	"github.com/weirgate/weir/localdb"
	"github.com/weirgate/weir/middleware"
)

// keyed returns a house that knows one key, of the plan free, wherever a request may bear it.
func keyed(t *testing.T, yaml string) (h *house, secret, id string) {
	t.Helper()
	h = alone(t, yaml)
	db, err := localdb.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store := apikey.NewStore(db.SQL(), func(context.Context) error { return db.Migrate("keys", apikey.Tables()) })
	keys, err := apikey.Open(t.Context(), store, apikey.Options{Now: h.clock.now, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	k, secret, err := keys.Create(t.Context(), apikey.Spec{Name: "a", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	s := *h.engine.Current()
	s.Verifier = keys.Verifier(apikey.Settings{Header: "X-Api-Key", Bearer: true, Query: "api_key", Plans: map[string]bool{"free": true}, Grace: time.Minute})
	s.Secrets = &credential.Places{Header: "X-Api-Key", Bearer: true, Query: "api_key"}
	h.engine.Swap(&s)
	return h, secret, k.ID
}

const threePerClient = "client: {from_right: 1, peers: [loopback]}\nplans: {free: {}}\ndefault: {limits: [{rate: 3/1m, per: client}]}\n"

// What the service sees of a request with a key everywhere: whose it is, and nothing of the key. What poses as our
// word is not there either.
func TestServiceSeesWhoseKeyItIs(t *testing.T) {
	h, secret, id := keyed(t, threePerClient)
	type sight struct {
		url    string
		header http.Header
	}
	var seen sight
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.RequestURI, r.URL.RequestURI()) {
			t.Errorf("%s is not %s", r.RequestURI, r.URL)
		}
		seen = sight{r.URL.RequestURI(), r.Header.Clone()}
	})
	upstream := httptest.NewServer(service)
	defer upstream.Close()
	inside := httptest.NewServer(middleware.New(h.engine, middleware.Options{}).Wrap(service))
	defer inside.Close()
	for name, base := range map[string]string{"proxy": "http://" + serveProxy(t, h, upstream.URL), "middleware": inside.URL} {
		r, err := http.NewRequest("GET", base+"/a?x=1&api_key="+secret+"&y=%20", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"X-Api-Key": {secret}, "X_Api_Key": {secret}, "Authorization": {"Bearer " + secret}, "X-Forwarded-For": {"203.0.113.7"},
			"X-Weir-Key-Id": {"admin"}, "X_Weir_Plan": {"gold"}, "Cookie": {"a=b"},
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if seen.url != "/a?x=1&y=%20" || seen.header.Get("X-Weir-Key-Id") != id || seen.header.Get("X-Weir-Plan") != "free" || seen.header.Get("Cookie") != "a=b" {
			t.Errorf("%s: the service sees %s with %v", name, seen.url, seen.header)
		}
		for field, lines := range seen.header {
			if strings.Contains(strings.Join(lines, " "), secret[18:]) || field == "X_Weir_Plan" {
				t.Errorf("%s: the service sees %s: %s", name, field, lines)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Somebody else's token stays with the request.
func TestOthersTokensStay(t *testing.T) {
	h, secret, _ := keyed(t, threePerClient)
	var got http.Header
	handler := middleware.New(h.engine, middleware.Options{}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header = http.Header{"X-Api-Key": {secret}, "Authorization": {"Bearer eyJhbGciOi"}}
	handler.ServeHTTP(httptest.NewRecorder(), r)
	if got.Get("Authorization") != "Bearer eyJhbGciOi" || got.Get("X-Api-Key") != "" || r.Header.Get("X-Api-Key") != secret {
		t.Errorf("%v", got)
	}
}

// Envoy is told to take the key off, wherever it is, and to name whose it is.
func TestEnvoyTakesKeysOff(t *testing.T) {
	h, secret, id := keyed(t, threePerClient)
	client := authpb.NewAuthorizationClient(dial(t, serve(t, extauthz.New(h.engine, extauthz.Options{})), ""))
	got, err := client.Check(atMost(t), &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{Address: "203.0.113.7"}}}},
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
			Method: "GET", Path: "/a?api_key=" + secret, Host: "api.example", Scheme: "http",
			Headers: map[string]string{"x-api-key": secret, "authorization": "Bearer " + secret, "x-forwarded-for": "203.0.113.7"},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ok := got.GetOkResponse()
	slices.Sort(ok.GetHeadersToRemove())
	if diff := cmp.Diff([]string{"authorization", "x-api-key"}, ok.GetHeadersToRemove()); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"api_key"}, ok.GetQueryParametersToRemove()); diff != "" {
		t.Errorf("removed of the query (-want +got):\n%s", diff)
	}
	set := map[string]string{}
	for _, o := range ok.GetHeaders() {
		set[o.Header.Key] = o.Header.Value
	}
	if diff := cmp.Diff(map[string]string{"x-weir-key-id": id, "x-weir-plan": "free"}, set); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
}

// A proxy that asks gets whose key it is in the fields of the answer.
func TestProxiesAreToldWhoseKeyItIs(t *testing.T) {
	h, secret, id := keyed(t, threePerClient)
	r, err := http.NewRequest("GET", forwardAuth(t, h)+"/auth/caddy", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"X-Api-Key": {secret}, "X-Forwarded-For": {"203.0.113.7"}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/a"}, "X-Forwarded-Host": {"api.example"}, "X-Forwarded-Proto": {"http"},
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("X-Weir-Key-Id") != id || res.Header.Get("X-Weir-Plan") != "free" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

// A handler of gRPC sees whose key it is, and not the key.
func TestHandlersSeeWhoseKeyItIs(t *testing.T) {
	h, secret, id := keyed(t, threePerClient)
	var seen metadata.MD
	limiter := grpcmw.New(h.engine)
	address := serve(t, &grpcServer{grpc.NewServer(
		grpc.ChainStreamInterceptor(limiter.StreamServerInterceptor),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			seen, _ = metadata.FromIncomingContext(stream.Context())
			return stream.SendMsg(&emptypb.Empty{})
		}),
	)})
	ctx := metadata.AppendToOutgoingContext(atMost(t), "x-api-key", secret, "x-weir-key-id", "admin", "other", "stays", "x-forwarded-for", "203.0.113.7")
	if err := dial(t, address, "").Invoke(ctx, "/svc/Method", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{"x-api-key": seen["x-api-key"], "x-weir-key-id": seen["x-weir-key-id"], "x-weir-plan": seen["x-weir-plan"], "other": seen["other"]}
	want := map[string][]string{"x-api-key": nil, "x-weir-key-id": {id}, "x-weir-plan": {"free"}, "other": {"stays"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// KEY-08: one key has one bucket, wherever the request bears it and however that is spelled. KEY-01: what nobody
// verified has none of its own.
func TestOneKeyOneBucket(t *testing.T) {
	h, secret, id := keyed(t, threePerClient)
	handler := middleware.New(h.engine, middleware.Options{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(target string, header http.Header) int {
		r := httptest.NewRequest("GET", target, nil)
		r.RemoteAddr, r.Header = "127.0.0.1:1", header
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	var got []int
	for _, form := range []struct {
		target string
		header http.Header
	}{
		{"/", http.Header{"X-Api-Key": {secret}}}, {"/", http.Header{"X-Api-Key": {secret}}}, {"/", http.Header{"X-Api-Key": {" " + secret}}},
		{"/?api_key=" + secret, http.Header{}}, {"/?%61pi_key=%77" + secret[1:], http.Header{}}, {"/", http.Header{"Authorization": {"Bearer " + secret}}},
		{"/", http.Header{"Authorization": {"bearer  " + secret}}}, {"/?api_key=" + secret, http.Header{"X-Api-Key": {secret}}},
	} {
		got = append(got, ask(form.target, form.header))
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429, 429, 429, 429, 429}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d := weir.Decision{At: h.clock.now(), Request: weir.Request{Header: http.Header{"X-Api-Key": {secret}}}}
	if h.engine.Current().Verifier.Verify(t.Context(), &d); d.Client.APIKey != id {
		t.Errorf("%+v", d.Client)
	}
	passed := 0
	for i := range 30 {
		if ask("/", http.Header{"X-Api-Key": {strings.Repeat("x", i+1)}}) == 200 {
			passed++
		}
	}
	if passed > 3 {
		t.Errorf("%d requests with a made-up key each pass, want at most 3", passed)
	}
}
