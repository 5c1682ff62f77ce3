package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
)

// A register proves keys of the form PLAN-NAME in X-Test-Key; wrong is none.
type register struct{}

func (register) Verify(_ context.Context, d *weir.Decision) {
	key := d.Request.Header.Get("X-Test-Key")
	plan, name, ok := strings.Cut(key, "-")
	switch {
	case ok:
		d.Client.Credential, d.Client.APIKey, d.Client.Plan = weir.Verified, name, plan
	case key != "":
		d.Client.Credential = weir.Refuted
	}
}

// An outage is a store that answers no look.
type outage struct{ engine.Store }

var errAway = errors.New("away")

func (outage) Peek(context.Context, time.Time, []weir.Hit, []weir.Status) error { return errAway }

// keyHouse is a house whose clients may bear keys, at noon.
func keyHouse(t testing.TB, yaml string, change func(*engine.Snapshot)) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	s := enginetest.Snapshot(t, yaml, store)
	s.Verifier = register{}
	if change != nil {
		change(s)
	}
	j := journal.New(journal.Options{Recent: 2000, Rules: s.Policy.Names()})
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	return &house{New(engine.New(s, j, func() time.Time { return noon }), Options{}), j}
}

// as asks with a key.
func (h *house) as(key, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = "203.0.113.7:1234"
	if key != "" {
		r.Header.Set("X-Test-Key", key)
	}
	w := httptest.NewRecorder()
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })).ServeHTTP(w, r)
	return w
}

const selfService = `
self_service: true
limits: [{name: site, rate: 600/1m, per: global}]
rules:
  - {name: search, path: /search, limits: [{rate: 10/1m}, {name: trial, rate: 1/1m, mode: shadow}]}
plans:
  free: {quota: [5/day], limits: [{rule: search, rate: 20/1m, algorithm: fixed_window}]}
default: {limits: [{rate: 300/1m, algorithm: fixed_window}]}
`

// left is a limit of which so much is left, for so many seconds.
func left(name, rate string, limit, remaining int64, reset float64) respond.OwnLimit {
	return respond.OwnLimit{Name: name, Rate: rate, Limit: limit, Remaining: remaining, ResetAfter: reset}
}

// An asker sees what its own limits have left, by its key or by its address, and not what it shares or what is on
// trial. To ask costs none of it.
func TestOwnLimits(t *testing.T) {
	h := keyHouse(t, selfService, nil)
	for range 2 {
		h.as("free-ann", "GET", "/search")
	}
	h.as("", "GET", "/")
	key := "203.0.113.7/32"
	byKey := respond.OwnLimits{
		Client: respond.OwnClient{Key: key, APIKey: new("ann"), Plan: new("free")},
		Limits: []respond.OwnLimit{
			left("free/search", "20/1m", 20, 18, 60),
			left("free/day", "5/day", 5, 3, 43200),
			left("default", "300/1m", 300, 300, 0),
		},
	}
	byAddress := respond.OwnLimits{
		Client: respond.OwnClient{Key: key},
		Limits: []respond.OwnLimit{left("search/10/1m/client", "10/1m", 10, 10, 0), left("default", "300/1m", 300, 299, 60)},
	}
	for range 3 {
		for who, want := range map[string]respond.OwnLimits{"free-ann": byKey, "": byAddress} {
			w := h.as(who, "GET", LimitsPath)
			var got respond.OwnLimits
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%q: HTTP status %d, %v: %s", who, w.Code, err, w.Body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", who, diff)
			}
		}
	}
}

// Who has nothing left is told when it has again.
func TestOwnLimitsThatAreUsed(t *testing.T) {
	h := keyHouse(t, selfService, nil)
	for range 9 {
		h.as("free-ann", "GET", "/")
	}
	var got respond.OwnLimits
	if err := json.Unmarshal(h.as("free-ann", "GET", LimitsPath).Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	noon := 43200.
	if want := (respond.OwnLimit{Name: "free/day", Rate: "5/day", Limit: 5, ResetAfter: noon, RetryAfter: &noon}); !cmp.Equal(want, got.Limits[1]) {
		t.Errorf("%+v, want %+v", got.Limits[1], want)
	}
}

// Asking has a limit of its own; a wrong key is told that it is, and one that guesses is heard no longer.
func TestOwnLimitsAreBounded(t *testing.T) {
	h := keyHouse(t, selfService, nil)
	got := map[int]int{}
	for range 70 {
		got[h.as("", "HEAD", LimitsPath).Code]++
	}
	if diff := cmp.Diff(map[int]int{200: 60, 429: 10}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := h.as("free-ann", "GET", LimitsPath); w.Code != 200 {
		t.Errorf("a key from that address: HTTP status %d", w.Code)
	}
	if w := h.as("wrong", "GET", LimitsPath); w.Code != 401 || w.Header().Get("Www-Authenticate") == "" {
		t.Errorf("a wrong key from that address, which has a count of its own: HTTP status %d, %v", w.Code, w.Header())
	}
	got = map[int]int{}
	for range 70 {
		got[h.as("wrong", "GET", LimitsPath).Code]++
	}
	if diff := cmp.Diff(map[int]int{401: 59, 429: 11}, got); diff != "" {
		t.Errorf("guessing (-want +got):\n%s", diff)
	}
}

// One look at the store is all that asking is, however many rules there are; without a store there is no answer.
func TestOwnLimitsAskAtMostOnce(t *testing.T) {
	yaml := "self_service: true\nrules:\n"
	for i := range 150 {
		yaml += fmt.Sprintf("  - {name: r%d, path: /r%[1]d, limits: [{rate: 9/1m}]}\n", i)
	}
	var got respond.OwnLimits
	if err := json.Unmarshal(keyHouse(t, yaml, nil).as("", "GET", LimitsPath).Body.Bytes(), &got); err != nil || len(got.Limits) != mostTold || got.More != 51 {
		t.Errorf("%d limits and %d more, %v", len(got.Limits), got.More, err)
	}
	h := keyHouse(t, selfService, func(s *engine.Snapshot) { s.Store = outage{s.Store} })
	if w := h.as("", "GET", LimitsPath); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a store: HTTP status %d", w.Code)
	}
}

// Nobody is told who was not to be, and nothing else is answered in a service's place.
func TestOwnLimitsAreForThatPathAlone(t *testing.T) {
	for yaml, asks := range map[string][][2]string{
		"self_service: false":                {{"GET", LimitsPath}},
		"self_service: true\nenabled: false": {{"GET", LimitsPath}},
		"self_service: true":                 {{"POST", LimitsPath}, {"GET", LimitsPath + "/"}, {"GET", "/a/.." + LimitsPath}},
	} {
		h := keyHouse(t, yaml, nil)
		for _, ask := range asks {
			if w := h.as("", ask[0], ask[1]); w.Code != http.StatusTeapot {
				t.Errorf("%s: %s %s: HTTP status %d, want the service's", yaml, ask[0], ask[1], w.Code)
			}
		}
	}
}
