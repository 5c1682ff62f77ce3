package respond

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgate/weir"
)

// banned is the refusal of a client whose ban still holds for left; 0: until it is lifted.
func banned(left time.Duration) *weir.Decision {
	d := &weir.Decision{At: time.Unix(1_700_000_000, 0), Ban: &weir.Ban{
		Subject: "203.0.113.0/24", Since: time.Unix(1_600_000_000, 0), Reason: "a secret", Author: "admin",
	}}
	if left > 0 {
		d.Ban.Until = d.At.Add(left)
	}
	d.Refuse(weir.BannedClient, http.StatusForbidden)
	return d
}

// The banned are told how long to wait, rounded up, and nothing of who banned them and why.
func TestRefusalOfTheBanned(t *testing.T) {
	type problem = map[string]any
	for _, test := range []struct {
		left  time.Duration
		after []string
		body  problem
	}{
		{0, nil, problem{"type": "about:blank", "title": "Forbidden", "status": 403.0, "detail": "This client is banned."}},
		{time.Nanosecond, []string{"1"}, problem{"type": "about:blank", "title": "Forbidden", "status": 403.0, "detail": "This client is banned. Retry after 1 s.", "retry_after": 1.0}},
		{time.Hour + 1, []string{"3601"}, problem{"type": "about:blank", "title": "Forbidden", "status": 403.0, "detail": "This client is banned. Retry after 3601 s.", "retry_after": 3601.0}},
	} {
		a := refusal(t, Options{}, get(), banned(test.left))
		if diff := cmp.Diff(test.body, a.Body); diff != "" || a.Status != 403 || !cmp.Equal(a.Header["Retry-After"], test.after) {
			t.Errorf("%v left: %d, Retry-After %v, -want +got:\n%s", test.left, a.Status, a.Header["Retry-After"], diff)
		}
	}
}

// A banned gRPC client gets PERMISSION_DENIED, which it does not retry, with the wait where there is one.
func TestRefusalOfTheBannedByGRPC(t *testing.T) {
	for left, details := range map[time.Duration]bool{0: false, time.Minute: true} {
		a := refusal(t, Options{}, get("Content-Type", "application/grpc"), banned(left))
		if a.Status != 200 || a.Header.Get("grpc-status") != "7" || (a.Header.Get("grpc-status-details-bin") != "") != details {
			t.Errorf("%v left: %+v", left, a)
		}
		if !details {
			continue
		}
		message, err := base64.RawStdEncoding.DecodeString(a.Header.Get("grpc-status-details-bin"))
		if err != nil {
			t.Fatal(err)
		}
		status := fieldsOf(t, message)
		if code := status[protowire.Number(1)]; !cmp.Equal(code, []any{uint64(7)}) {
			t.Errorf("code %v", code)
		}
	}
}

// Operators see all of it.
func TestViewOfABan(t *testing.T) {
	got := marshalled(t, banned(time.Hour))
	want := map[string]any{"subject": "203.0.113.0/24", "since": "2020-09-13T12:26:40Z", "until": "2023-11-14T23:13:20Z", "reason": "a secret", "author": "admin"}
	if diff := cmp.Diff(want, got["ban"]); diff != "" || got["status"] != 403.0 || got["reason"] != "banned client" {
		t.Errorf("%v, -want +got:\n%s", got, diff)
	}
	want["until"] = nil
	if diff := cmp.Diff(want, marshalled(t, banned(0))["ban"]); diff != "" {
		t.Errorf("without an end, -want +got:\n%s", diff)
	}
}
