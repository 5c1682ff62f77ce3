package grpcmw

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirgate/weir"
)

// refuse returns the refusal as the reverse proxy would send it: the trailers beside the status, and the
// status. Since there is no header, it is sent as trailers alone, in one frame.
func (c *call) refuse() (metadata.MD, error) {
	c.decision.Action = weir.Reject // nothing is dropped or held here
	w := &answer{header: http.Header{}}
	asked := http.Request{Method: http.MethodPost, Header: http.Header{typeField: {"application/grpc"}}}
	c.snapshot.Respond.Refusal(w, &asked, c.decision)
	err := w.status()
	c.answered(err)
	return w.rest(), err
}

// fields returns the rate limit fields of an admitted call, or nil.
func (c *call) fields() metadata.MD {
	if len(c.decision.Statuses) == 0 {
		return nil
	}
	w := answer{header: http.Header{}}
	c.snapshot.Respond.Headers(w.header, c.decision)
	return w.rest()
}

// An answer is what a responder writes: gRPC's form of it lies in the header alone.
type answer struct{ header http.Header }

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Every gRPC answer is 200.
func (w *answer) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (w *answer) Write(b []byte) (int, error) { return len(b), nil }

// The fields that a status is made of, and what grpc-go writes by itself.
const (
	codeField    = "Grpc-Status"
	messageField = "Grpc-Message"
	detailsField = "Grpc-Status-Details-Bin"
	typeField    = "Content-Type"
)

// status returns the status that the answer bears. Its code is never OK nor UNKNOWN.
func (w *answer) status() error {
	var s spb.Status
	details, err := base64.RawStdEncoding.DecodeString(w.header.Get(detailsField))
	if err == nil && len(details) > 0 && proto.Unmarshal(details, &s) == nil {
		return status.FromProto(&s).Err()
	}
	code, _ := strconv.Atoi(w.header.Get(codeField)) // it is ours
	return status.Error(codes.Code(code), w.header.Get(messageField))
}

// rest returns everything else in the answer as metadata.
func (w *answer) rest() metadata.MD {
	rest := make(metadata.MD, len(w.header))
	for name, lines := range w.header {
		switch name {
		case codeField, messageField, detailsField, typeField:
		default:
			rest[strings.ToLower(name)] = lines
		}
	}
	return rest
}

// httpStatuses are the HTTP statuses of gRPC's codes, as google/rpc/code.proto gives them. Limits that count
// only some HTTP statuses go by them.
var httpStatuses = [...]int{
	codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504,
	codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
	codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
	codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
}

// httpStatus returns the HTTP status for what a handler returned, read as grpc-go reads it.
func httpStatus(err error) int {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	if code := int(s.Code()); code < len(httpStatuses) {
		return httpStatuses[code]
	}
	return http.StatusInternalServerError
}
