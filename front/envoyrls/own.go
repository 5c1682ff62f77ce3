package envoyrls

import (
	"net/http"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// ownHeaders gives the answer the header fields and, if it is a refusal, the body that Weir's other fronts
// give: the rate limit fields and a problem document (RFC 9457).
func ownHeaders(snapshot *engine.Snapshot, d *weir.Decision, a *pb.RateLimitResponse) {
	if snapshot.Respond == nil {
		return
	}
	w := written{header: http.Header{}}
	if d.Refused() {
		snapshot.Respond.Refusal(&w, &http.Request{Method: http.MethodGet, Header: http.Header{}}, d)
	} else {
		snapshot.Respond.Headers(w.header, d)
	}
	a.RawBody = w.body
	for name, values := range w.header {
		for _, value := range values {
			a.ResponseHeadersToAdd = append(a.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name, Value: value})
		}
	}
}

// written is an answer that is sent by somebody else.
type written struct {
	header http.Header
	body   []byte
}

func (w *written) Header() http.Header { return w.header }
func (w *written) WriteHeader(int)     {}

func (w *written) Write(b []byte) (int, error) {
	w.body = append(w.body, b...)
	return len(b), nil
}
