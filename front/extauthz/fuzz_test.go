package extauthz

import (
	"errors"
	"net"
	"testing"
	"time"
	"unicode/utf8"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

// FuzzCheck asks anything that is a question to protobuf. There is an answer, which protobuf can carry, and a
// refusal has a status.
func FuzzCheck(f *testing.F) {
	for _, q := range []*authpb.CheckRequest{
		{}, question("203.0.113.7", "GET", "/search?q=1", chainName, "6.6.6.6, 203.0.113.7"),
		question("2001:db8::1", "POST", "/a%2f..", "content-type", "application/grpc-web", "accept", "text/html", "origin", "https://a"),
	} {
		b, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	server := strict(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var q authpb.CheckRequest
		if proto.Unmarshal(b, &q) == nil {
			answers(t, server, &q)
		}
	})
}

// FuzzQuestion asks about any request.
func FuzzQuestion(f *testing.F) {
	f.Add("203.0.113.7", "GET", "/search?q=1", "X-Forwarded-For", "6.6.6.6, 203.0.113.7")
	server := strict(f)
	f.Fuzz(func(t *testing.T, src, method, path, name, value string) {
		answers(t, server, question(src, method, path, name, value, "origin", value))
	})
}

// strict is a server that refuses much, in every form.
func strict(f *testing.F) *Server {
	store := memory.New(memory.Options{MaxKeys: 1000})
	f.Cleanup(store.Close)
	s := enginetest.Snapshot(f, `
client: {from_right: 1, peers: [private]}
html: true
headers: both
cors: {allow_origin: "https://a"}
rules:
  - {name: search, path: /search, limits: [{rate: 1/1h, per: [client, "header:X-A"]}, {rate: 1/1h, per: ip, mode: shadow}]}
  - {name: tagged, path: /tag, action: tag, limits: [{rate: 0/1h}]}
`, store)
	server := New(engine.New(s, journal.New(journal.Options{Rules: s.Policy.Names()}), time.Now), Options{})
	f.Cleanup(server.grpc.Stop)
	return server
}

// answers asks q.
func answers(t *testing.T, server *Server, q *authpb.CheckRequest) {
	t.Helper()
	answer := server.decide(by(envoy), q)
	if _, err := proto.Marshal(answer); err != nil {
		t.Fatal(err)
	}
	code, d := answer.GetStatus().GetCode(), answer.GetDeniedResponse()
	if code == 2 || (code == 0) != (d == nil) || d != nil && (d.Status.Code < 400 || !utf8.ValidString(d.Body)) {
		t.Fatalf("got %v", answer)
	}
}

// broken is a listener that does not accept.
type broken struct{}

func (broken) Accept() (net.Conn, error) { return nil, errors.New("no more files") }
func (broken) Close() error              { return nil }
func (broken) Addr() net.Addr            { return name("broken:1") }

type name string

func (name) Network() string  { return "tcp" }
func (n name) String() string { return string(n) }
