package respond

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgate/weir"
)

func TestGRPCForm(t *testing.T) {
	tests := map[string]form{
		"":                                   notGRPC,
		"application/json":                   notGRPC,
		"application/grpcx":                  notGRPC,
		"application/grpc":                   grpcHTTP2,
		"application/grpc+proto":             grpcHTTP2,
		"Application/GRPC; charset=x":        grpcHTTP2,
		"application/grpc-web":               grpcWeb,
		"application/grpc-web+json":          grpcWeb,
		"application/grpc-web-text+proto":    grpcWebText,
		"application/grpc-web-text;charset=": grpcWebText,
		"application/grpc-web-texts":         notGRPC,
	}
	for contentType, want := range tests {
		if got := grpcForm(http.Header{"Content-Type": {contentType}}); got != want {
			t.Errorf("%q: got %v, want %v", contentType, got, want)
		}
	}
}

// A message read back field by field: numbers, texts, and messages within by name of their field.
func fieldsOf(t *testing.T, b []byte) map[protowire.Number][]any {
	t.Helper()
	got := map[protowire.Number][]any{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("tag: %v", protowire.ParseError(n))
		}
		b = b[n:]
		if kind == protowire.VarintType {
			v, n := protowire.ConsumeVarint(b)
			got[number], b = append(got[number], v), b[n:]
			continue
		}
		v, n := protowire.ConsumeString(b)
		if n < 0 {
			t.Fatalf("field %d: %v", number, protowire.ParseError(n))
		}
		got[number], b = append(got[number], v), b[n:]
	}
	return got
}

// statusDetails returns code, message, and the details by their type.
func statusDetails(t *testing.T, encoded string) (code uint64, message string, details map[string]string) {
	t.Helper()
	raw, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	status := fieldsOf(t, raw)
	details = map[string]string{}
	for _, d := range status[3] {
		message := fieldsOf(t, []byte(d.(string)))
		details[message[1][0].(string)] = message[2][0].(string)
	}
	return status[1][0].(uint64), status[2][0].(string), details
}

// hypothesis: a plain 429 is UNAVAILABLE to a gRPC client, which retries it at once.
func TestGRPCRefusal(t *testing.T) {
	w := httptest.NewRecorder()
	sent := New(Options{}).Refusal(w, get("Content-Type", "application/grpc+proto"), refused(22*time.Second+1))
	details := w.Header().Get("Grpc-Status-Details-Bin")
	w.Header().Del("Grpc-Status-Details-Bin")
	want := answer{Status: 200, Body: "", Header: http.Header{
		"Content-Type": {"application/grpc"}, "Cache-Control": {"no-store"},
		"Grpc-Status": {"8"}, "Grpc-Message": {"The limit search (60/1m) is used up. Retry after 23 s."},
		"Grpc-Retry-Pushback-Ms": {"-1"},
		"Ratelimit-Policy":       {`"search";q=60;w=60`}, "Ratelimit": {`"search";r=0;t=23`},
	}}
	if diff := cmp.Diff(want, read(t, w)); diff != "" || sent != 200 {
		t.Errorf("sent %d, answer (-want +got):\n%s", sent, diff)
	}
	code, message, parts := statusDetails(t, details)
	if code != 8 || message != "The limit search (60/1m) is used up. Retry after 23 s." {
		t.Errorf("status: got %d %q", code, message)
	}
	duration := fieldsOf(t, []byte(parts["type.googleapis.com/google.rpc.RetryInfo"]))[1][0].(string)
	if got := fieldsOf(t, []byte(duration))[1][0]; got != uint64(23) {
		t.Errorf("retry delay: got %v s, want 23", got)
	}
	violation := fieldsOf(t, []byte(parts["type.googleapis.com/google.rpc.QuotaFailure"]))[1][0].(string)
	wantViolation := map[protowire.Number][]any{1: {"search"}, 2: {"60/1m"}}
	if diff := cmp.Diff(wantViolation, fieldsOf(t, []byte(violation))); diff != "" {
		t.Errorf("violation (-want +got):\n%s", diff)
	}
}

func TestGRPCWithoutRetry(t *testing.T) {
	w := httptest.NewRecorder()
	New(Options{}).Refusal(w, get("Content-Type", "application/grpc"), refused(weir.Never))
	_, _, parts := statusDetails(t, w.Header().Get("Grpc-Status-Details-Bin"))
	if _, there := parts["type.googleapis.com/google.rpc.RetryInfo"]; there || len(parts) != 1 {
		t.Errorf("details: got %d, want the violation alone", len(parts))
	}
}

func TestGRPCCodes(t *testing.T) {
	tests := map[int]string{400: "3", 401: "16", 403: "7", 404: "12", 408: "4", 413: "8", 429: "8", 431: "8", 500: "13", 502: "14", 503: "14", 504: "4"}
	for status, want := range tests {
		w := httptest.NewRecorder()
		new(Responder).Problem(w, get("Content-Type", "application/grpc"), status, "50% ünsafe")
		if got := w.Header().Get("Grpc-Status"); got != want || w.Code != 200 {
			t.Errorf("%d: got HTTP %d and code %s, want 200 and %s", status, w.Code, got, want)
		}
		if got, want := w.Header().Get("Grpc-Message"), "50%25 %C3%BCnsafe"; got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
		if got := w.Header().Get("Connection") == "close"; got != (status == 408) {
			t.Errorf("%d: closes the connection: %v", status, got)
		}
	}
}

func TestGRPCWeb(t *testing.T) {
	for _, contentType := range []string{"application/grpc-web+proto", "application/grpc-web-text"} {
		w := httptest.NewRecorder()
		New(Options{}).Refusal(w, get("Content-Type", contentType), refused(time.Second))
		body := w.Body.Bytes()
		if strings.HasPrefix(contentType, "application/grpc-web-text") {
			var err error
			if body, err = base64.StdEncoding.DecodeString(w.Body.String()); err != nil {
				t.Fatal(err)
			}
		}
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), strings.TrimSuffix(contentType, "+proto")) {
			t.Errorf("%s: got %d, %s", contentType, w.Code, w.Header().Get("Content-Type"))
		}
		if body[0] != 0x80 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			t.Fatalf("%s: frame %x", contentType, body[:5])
		}
		lines := strings.Split(strings.TrimSuffix(string(body[5:]), "\r\n"), "\r\n")
		want := []string{"grpc-status:8", "grpc-message:The limit search (60/1m) is used up. Retry after 1 s.", "grpc-retry-pushback-ms:-1"}
		if diff := cmp.Diff(want, lines[:3]); diff != "" || len(lines) != 4 {
			t.Errorf("%s: %d lines (-want +got):\n%s", contentType, len(lines), diff)
		}
	}
}

// grpc-web comes from browsers, which show a script nothing that it may not read.
func TestGRPCWebIsReadableByScripts(t *testing.T) {
	const site = "https://app.example"
	req := get("Content-Type", "application/grpc-web", "Origin", site)
	refusal, problem := httptest.NewRecorder(), httptest.NewRecorder()
	New(Options{AllowOrigin: site}).Refusal(refusal, req, refused(time.Second))
	New(Options{AllowOrigin: site}).Problem(problem, req, 502, "down")
	for _, w := range []*httptest.ResponseRecorder{refusal, problem} {
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != site {
			t.Errorf("Access-Control-Allow-Origin: got %q, want %s", got, site)
		}
	}
	if got, want := refusal.Header().Get("Access-Control-Expose-Headers"), "Retry-After, RateLimit, RateLimit-Policy"; got != want {
		t.Errorf("Access-Control-Expose-Headers: got %q, want %s", got, want)
	}
}

// Whatever a limit is called, the header block stays one that can be sent.
func FuzzPercentEncoded(f *testing.F) {
	f.Add("50% \r\nx: y")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []byte(percentEncoded(text)) {
			if c < ' ' || c > '~' {
				t.Fatalf("byte %#x", c)
			}
		}
	})
}
