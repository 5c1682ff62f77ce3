package engine_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// A register is a verifier that knows who is behind which value of a header field.
type register struct {
	field string
	known map[string]weir.Client
}

func (r register) Verify(_ context.Context, d *weir.Decision) {
	value := d.Request.Header.Get(r.field)
	if value == "" {
		return
	}
	c := &d.Client
	c.Credential = weir.Refuted
	if who, ok := r.known[value]; ok {
		c.APIKey, c.Plan, c.Scopes, c.Credential = who.APIKey, who.Plan, who.Scopes, who.Credential
	}
}

// Several verifiers are one: the one that finds something speaks, and two that do contradict each other.
func TestVerifiers(t *testing.T) {
	keys := register{"X-Key", map[string]weir.Client{
		"k": {APIKey: "k1", Plan: "free", Scopes: []string{"read"}, Credential: weir.Verified}, "down": {Credential: weir.Unverifiable},
	}}
	tokens := register{"X-Token", map[string]weir.Client{"t": {APIKey: "jwt:ann", Plan: "pro", Credential: weir.Verified}}}
	for _, c := range []struct {
		key, token string
		want       weir.Client
	}{
		{"", "", weir.Client{}},
		{"k", "", weir.Client{APIKey: "k1", Plan: "free", Scopes: []string{"read"}, Credential: weir.Verified}},
		{"", "t", weir.Client{APIKey: "jwt:ann", Plan: "pro", Credential: weir.Verified}},
		{"x", "", weir.Client{Credential: weir.Refuted}},
		{"", "x", weir.Client{Credential: weir.Refuted}},
		{"down", "", weir.Client{Credential: weir.Unverifiable}},
		{"k", "t", weir.Client{Credential: weir.Ambiguous}},
		{"k", "x", weir.Client{Credential: weir.Ambiguous}},
		{"x", "t", weir.Client{Credential: weir.Ambiguous}},
		{"down", "t", weir.Client{Credential: weir.Ambiguous}},
	} {
		d := &weir.Decision{Request: weir.Request{Header: http.Header{}}}
		for field, value := range map[string]string{"X-Key": c.key, "X-Token": c.token} {
			if value != "" {
				d.Request.Header.Set(field, value)
			}
		}
		engine.Verifiers{keys, tokens}.Verify(context.Background(), d)
		got := d.Client
		if got.APIKey != c.want.APIKey || got.Plan != c.want.Plan || len(got.Scopes) != len(c.want.Scopes) || got.Credential != c.want.Credential {
			t.Errorf("key %q, token %q: %+v, want %+v", c.key, c.token, got, c.want)
		}
	}
}

// KEY-01, KEY-11: an identity that is not proved is no identity. However many keys are made up, the address's
// limit holds, and whose name was forged has his own.
func TestForgedKeysGiveNoFreshCount(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 5/1m}]}")
	s := *h.Current()
	s.Verifier = register{"X-Key", map[string]weir.Client{"real": {APIKey: "victim", Credential: weir.Verified}}}
	h.Swap(&s)
	ask := func(key string) int {
		req := request("/")
		req.Header = http.Header{"X-Key": {key}}
		d := h.Decide(context.Background(), &s, req)
		status := d.HTTP
		h.Record(&s, d, weir.Outcome{HTTP: status})
		return status
	}
	got := map[int]int{}
	for i := range 50 {
		got[ask("forged"+string(rune('a'+i)))]++
	}
	if got[401] != 5 || got[429] != 45 {
		t.Errorf("forged keys: %v, want 5 of 401 and 45 of 429", got)
	}
	for i := range 6 {
		if status := ask("real"); (status == 200) != (i < 5) {
			t.Errorf("the victim's request %d: HTTP status %d", i+1, status)
		}
	}
}
