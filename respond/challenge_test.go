package respond

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// A 401 says in which ways a key may be sent (RFC 9110, section 15.5.2), and of a token no more than RFC 6750 has
// words for.
func TestChallenges(t *testing.T) {
	const both, bearer, field, neither = "both", "bearer", "field", "neither"
	options := map[string]Options{both: {Bearer: true, KeyHeader: "X-API-Key"}, bearer: {Bearer: true}, field: {KeyHeader: "X-API-Key"}, neither: {}}
	for _, c := range []struct {
		read   string
		reason weir.Reason
		status int
		want   []string
	}{
		{both, weir.KeyMissing, 401, []string{`Bearer realm="weir", ApiKey realm="weir", header="X-API-Key"`}},
		{both, weir.KeyRefused, 401, []string{`Bearer realm="weir", error="invalid_token", ApiKey realm="weir", header="X-API-Key"`}},
		{bearer, weir.KeyAmbiguous, 401, []string{`Bearer realm="weir", error="invalid_token"`}},
		{field, weir.KeyRefused, 401, []string{`ApiKey realm="weir", header="X-API-Key"`}},
		{neither, weir.KeyMissing, 401, []string{`ApiKey realm="weir"`}},
		{both, weir.ScopeMissing, 403, []string{`Bearer realm="weir", error="insufficient_scope", scope="read write"`}},
		{field, weir.ScopeMissing, 403, nil},
		{both, weir.KeyUnverifiable, 503, nil},
		{both, weir.ClientUnresolved, 403, nil},
		{both, weir.OverLimit, 429, nil},
	} {
		d := &weir.Decision{Action: weir.Reject, Reason: c.reason, HTTP: c.status, Rule: &weir.Rule{Name: "api", Scopes: []string{"read", "write"}}}
		got := refusal(t, options[c.read], get(), d)
		if diff := cmp.Diff(c.want, got.Header["Www-Authenticate"]); diff != "" || got.Status != c.status {
			t.Errorf("%s, %s: HTTP status %d (-want +got):\n%s", c.read, c.reason, got.Status, diff)
		}
	}
}

// What a key lacks is told in words, and to a gRPC client by its code.
func TestKeysInWordsAndInGRPC(t *testing.T) {
	for reason, c := range map[weir.Reason]struct {
		status int
		detail string
		code   string
		wait   string
	}{
		weir.KeyMissing:      {401, "The request needs an API key or a token.", "16", ""},
		weir.KeyRefused:      {401, "The API key or token is not valid.", "16", ""},
		weir.KeyAmbiguous:    {401, "The request bears two API keys or tokens that differ.", "16", ""},
		weir.ScopeMissing:    {403, "The API key or token is not meant for this.", "7", ""},
		weir.KeyUnverifiable: {503, "The API key or token cannot be verified at the moment.", "14", "1"},
		weir.BannedClient:    {403, "Requests from this client are refused at the moment.", "7", ""},
	} {
		d := &weir.Decision{Action: weir.Reject, Reason: reason, HTTP: c.status, Rule: &weir.Rule{Name: "api"}}
		plain := refusal(t, Options{}, get(), d)
		body, _ := plain.Body.(map[string]any)
		if plain.Status != c.status || body["detail"] != c.detail || plain.Header.Get("Retry-After") != c.wait {
			t.Errorf("%s: HTTP status %d, Retry-After %q, %v", reason, plain.Status, plain.Header.Get("Retry-After"), body)
		}
		w := httptest.NewRecorder()
		New(Options{}).Refusal(w, get("Content-Type", "application/grpc"), d)
		if w.Code != http.StatusOK || w.Result().Header.Get("grpc-status") != c.code || w.Result().Header.Get("grpc-message") != c.detail {
			t.Errorf("%s: %d, %v", reason, w.Code, w.Header())
		}
	}
}
