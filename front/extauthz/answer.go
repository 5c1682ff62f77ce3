package extauthz

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/credential"
	"github.com/weirgate/weir/internal/mark"
	"github.com/weirgate/weir/respond"
)

// passed lets a request through: with what d has to tell towards the service, without what poses as that,
// and with the rate limit fields on the service's answer, in place of its own.
func passed(s *engine.Snapshot, d *weir.Decision) *authpb.CheckResponse {
	ok := &authpb.OkHttpResponse{}
	if !s.Policy.Disabled {
		tell(ok, d)
		strip(ok, s.Secrets, d)
		fields := make(http.Header, 4)
		s.Respond.Headers(fields, d)
		ok.ResponseHeadersToAdd = options(fields)
	}
	return &authpb.CheckResponse{
		Status:       &statuspb.Status{Code: int32(codes.OK)},
		HttpResponse: &authpb.CheckResponse_OkResponse{OkResponse: ok},
	}
}

// tell fills in what becomes of the request's header. Envoy removes last, so that what is set, which
// replaces every copy of the client's, must not be removed.
func tell(ok *authpb.OkHttpResponse, d *weir.Decision) {
	fields := mark.Fields(d)
	for _, f := range fields {
		ok.Headers = append(ok.Headers, option(f.Name, f.Value))
	}
	for _, name := range mark.Posers(d.Request.Header, d) {
		if !slices.ContainsFunc(fields, func(f mark.Field) bool { return strings.EqualFold(f.Name, name) }) {
			ok.HeadersToRemove = append(ok.HeadersToRemove, strings.ToLower(name))
		}
	}
}

// strip has Envoy take API keys off the request.
func strip(ok *authpb.OkHttpResponse, secrets *credential.Places, d *weir.Decision) {
	for _, name := range secrets.Fields(d.Request.Header) {
		ok.HeadersToRemove = append(ok.HeadersToRemove, strings.ToLower(name))
	}
	if secrets.InQuery(d.Request.Query) {
		ok.QueryParametersToRemove = []string{secrets.Query}
	}
}

// denied has Envoy answer a request with the refusal d, which is that of every other front. A gRPC client gets
// the status that it will not retry: Envoy, which makes up the rest of such an answer, keeps a grpc-status that
// it is given.
func denied(r *respond.Responder, d *weir.Decision) *authpb.CheckResponse {
	asked := &http.Request{Method: d.Request.Method, Header: d.Request.Header}
	web := webType(asked.Header)
	if web != "" { // its own framing is no text, as a body must be here; its clients read a status in the header as well
		asked.Header = http.Header{"Content-Type": {"application/grpc"}, "Origin": asked.Header["Origin"]}
	}
	w := answer{header: http.Header{}}
	r.Refusal(&w, asked, d)
	if web != "" {
		w.header.Set("Content-Type", web)
	}
	status := refusedStatus(d)
	if status == http.StatusTooManyRequests {
		w.header.Set("X-Envoy-Ratelimited", "true") // an Envoy further out does not try again, either
	}
	return &authpb.CheckResponse{
		Status: &statuspb.Status{Code: int32(code(status)), Message: string(d.Reason)},
		HttpResponse: &authpb.CheckResponse_DeniedResponse{DeniedResponse: &authpb.DeniedHttpResponse{
			Status:  &typepb.HttpStatus{Code: typepb.StatusCode(status)},
			Headers: options(w.header),
			Body:    text(w.body.String()),
		}},
	}
}

// refusedStatus returns the HTTP status of a refusal. That of a gRPC request is 200 in the end, by Envoy.
func refusedStatus(d *weir.Decision) int {
	if d.HTTP < 400 {
		return http.StatusTooManyRequests
	}
	return d.HTTP
}

// code returns the gRPC status code that tells Envoy of a refusal. Envoy takes UNKNOWN for a fault.
func code(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	}
	return codes.PermissionDenied
}

// webType returns the content type of an answer to a gRPC-Web request that Envoy has not translated; for any
// other, nothing.
func webType(h http.Header) string {
	switch asked := strings.ToLower(h.Get("Content-Type")); {
	case strings.HasPrefix(asked, "application/grpc-web-text"):
		return "application/grpc-web-text+proto"
	case strings.HasPrefix(asked, "application/grpc-web"):
		return "application/grpc-web+proto"
	}
	return ""
}

// options returns h as Envoy is told of header fields: each in place of any that is there.
func options(h http.Header) []*corepb.HeaderValueOption {
	list := make([]*corepb.HeaderValueOption, 0, len(h))
	for name, lines := range h {
		list = append(list, option(name, strings.Join(lines, ", ")))
	}
	return list
}

func option(name, value string) *corepb.HeaderValueOption {
	return &corepb.HeaderValueOption{
		Header:       &corepb.HeaderValue{Key: strings.ToLower(name), Value: text(value)},
		AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// text returns s as protobuf can carry it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// An answer is what a responder writes.
type answer struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. The status is known from the decision.
func (w *answer) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }
