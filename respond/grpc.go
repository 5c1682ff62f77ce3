package respond

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgate/weir"
)

// A form is how a gRPC client wants its answer framed.
type form uint8

const (
	notGRPC form = iota
	grpcHTTP2
	grpcWeb     // trailers as a frame of the body
	grpcWebText // the same in base64
)

// grpcForm tells from the content type whether a request is gRPC.
func grpcForm(h http.Header) form {
	line := h["Content-Type"]
	if len(line) == 0 || len(line[0]) < len("application/grpc") {
		return notGRPC
	}
	name, _, _ := strings.Cut(line[0], ";")
	name = strings.ToLower(strings.TrimSpace(name))
	name, _, _ = strings.Cut(name, "+")
	switch name {
	case "application/grpc":
		return grpcHTTP2
	case "application/grpc-web":
		return grpcWeb
	case "application/grpc-web-text":
		return grpcWebText
	}
	return notGRPC
}

// contentTypes are the answers' content types by form.
var contentTypes = [...]string{grpcHTTP2: "application/grpc", grpcWeb: "application/grpc-web+proto", grpcWebText: "application/grpc-web-text+proto"}

// grpcCode returns the gRPC status code for an HTTP status.
func grpcCode(status int) int {
	switch status {
	case http.StatusBadRequest:
		return 3 // INVALID_ARGUMENT
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return 4 // DEADLINE_EXCEEDED
	case http.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return 12 // UNIMPLEMENTED
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return 14 // UNAVAILABLE
	case http.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	}
	return 13 // INTERNAL
}

// refuseGRPC answers with p as a gRPC status that clients do not retry by themselves; the wait is in
// its RetryInfo. A plain 429 would become UNAVAILABLE, which many retry at once.
func (r *Responder) refuseGRPC(w http.ResponseWriter, req *http.Request, to form, p *problem) int {
	r.Headers(w.Header(), p.d)
	r.allow(w.Header(), req)
	if to != grpcHTTP2 { // a browser's
		w.Header().Set("Access-Control-Expose-Headers", r.exposed())
	}
	trailers := append(grpcStatus(p), [2]string{"grpc-retry-pushback-ms", "-1"})
	if p.name != "" || p.wait > 0 {
		details := base64.RawStdEncoding.EncodeToString(appendStatus(nil, p))
		trailers = append(trailers, [2]string{"grpc-status-details-bin", details})
	}
	sendGRPC(w, to, trailers)
	return http.StatusOK
}

func (r *Responder) problemGRPC(w http.ResponseWriter, req *http.Request, to form, p *problem) {
	r.allow(w.Header(), req)
	if p.status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close")
	}
	sendGRPC(w, to, grpcStatus(p))
}

// grpcStatus returns the trailers that every gRPC answer has.
func grpcStatus(p *problem) [][2]string {
	return [][2]string{
		{"grpc-status", strconv.Itoa(grpcCode(p.status))},
		{"grpc-message", percentEncoded(p.detail)},
	}
}

// sendGRPC answers with trailers alone: as the only header block, or in grpc-web's frame of the body.
func sendGRPC(w http.ResponseWriter, to form, trailers [][2]string) {
	h := w.Header()
	delete(h, "Content-Length")
	delete(h, "Content-Encoding")
	h.Set("Content-Type", contentTypes[to])
	h.Set("Cache-Control", "no-store")
	if to == grpcHTTP2 {
		for _, t := range trailers {
			h.Set(t[0], t[1])
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	frame := trailerFrame(trailers)
	if to == grpcWebText {
		frame = base64.StdEncoding.AppendEncode(nil, frame)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(frame) // an asker that is gone needs no answer
}

// trailerFrame is a grpc-web message that bears the trailers: flag 0x80, a length in four bytes, lines.
func trailerFrame(trailers [][2]string) []byte {
	frame := []byte{0x80, 0, 0, 0, 0}
	for _, t := range trailers {
		frame = append(frame, t[0]+":"+t[1]+"\r\n"...)
	}
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-5))
	return frame
}

// percentEncoded writes text as grpc-message wants it: printable ASCII but for the percent sign.
func percentEncoded(text string) string {
	b := make([]byte, 0, len(text)+8)
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == '%' {
			b = appendPercent(b, c)
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// appendStatus appends p as a google.rpc.Status, with RetryInfo unless no waiting helps, and a
// QuotaFailure that names the limits.
func appendStatus(b []byte, p *problem) []byte {
	b = protowire.AppendTag(b, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(grpcCode(p.status)))
	b = appendText(b, 2, p.detail)
	if p.wait > 0 {
		b = appendDetails(b, "type.googleapis.com/google.rpc.RetryInfo", retryInfo(p.wait))
	}
	if quota := quotaFailure(p.d); len(quota) > 0 {
		b = appendDetails(b, "type.googleapis.com/google.rpc.QuotaFailure", quota)
	}
	return b
}

// appendDetails appends a google.protobuf.Any to Status.details.
func appendDetails(b []byte, url string, value []byte) []byte {
	message := appendText(nil, 1, url)
	message = appendText(message, 2, string(value))
	return appendText(b, 3, string(message))
}

// retryInfo is a google.rpc.RetryInfo: a google.protobuf.Duration in its first field.
func retryInfo(wait int64) []byte {
	duration := protowire.AppendTag(nil, 1, protowire.VarintType)
	duration = protowire.AppendVarint(duration, uint64(wait))
	return appendText(nil, 1, string(duration))
}

// quotaFailure is a google.rpc.QuotaFailure with one violation per limit that refused, the subject
// being the limit's name.
func quotaFailure(d *weir.Decision) []byte {
	var b []byte
	for _, s := range tightestFirst(nil, d) {
		if s.Allowed {
			break
		}
		violation := appendText(nil, 1, s.Limit.Name)
		violation = appendText(violation, 2, s.Limit.Rate)
		b = appendText(b, 1, string(violation))
	}
	return b
}

// appendText appends a length-delimited field: a string, bytes or a message.
func appendText(b []byte, field protowire.Number, text string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, text)
}
