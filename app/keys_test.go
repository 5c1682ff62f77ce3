package app

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/internal/pgtest"
	"github.com/weirgate/weir/localdb"
)

const byKey = basics + `
keys: {}
waf: {enabled: false}
plans: {free: {limits: [{rule: default, rate: 50/1h}]}}
default: {limits: [{rate: 20/1h, per: client}]}
`

// newKey creates a key in a running house.
func (h *house) newKey(spec apikey.Spec) (apikey.Key, string) {
	h.t.Helper()
	k, secret, err := h.knownKeys().Create(context.Background(), spec)
	if err != nil {
		h.t.Fatal(err)
	}
	return k, secret
}

// with asks n times with a key and returns how many answers had which HTTP status.
func (h *house) with(secret string, n int) map[int]int {
	h.t.Helper()
	got := map[int]int{}
	for range n {
		req, err := http.NewRequest("GET", "http://"+h.fronts[0].listener.Addr().String()+"/", nil)
		if err != nil {
			h.t.Fatal(err)
		}
		if secret != "" {
			req.Header.Set("X-Api-Key", secret)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			h.t.Fatal(err)
		}
		res.Body.Close()
		got[res.StatusCode]++
	}
	return got
}

// KEY-04: a key has the limit of its plan; what is no key is refused, within a count of its own by address; who has none
// is counted by address.
func TestKeysPlansAndStrangers(t *testing.T) {
	h := build(t, plan{yaml: byKey})
	_, secret := h.newKey(apikey.Spec{Name: "a", Plan: "free"})
	if got := h.with(secret, 60); got[200] != 50 || got[429] != 10 {
		t.Errorf("with a key of 50 in an hour: %v", got)
	}
	if got := h.with("weir_guess", 50); got[401] != 20 || got[429] != 30 {
		t.Errorf("with what is no key: %v", got)
	}
	if got := h.with("", 25); got[200] != 20 || got[429] != 5 {
		t.Errorf("without one, of 20 in an hour: %v", got)
	}
}

// A key of a plan that the file lacks is an error when it is loaded, at the start and at a reload, which then
// changes nothing.
func TestPlansThatKeysHave(t *testing.T) {
	h := build(t, plan{yaml: byKey})
	k, secret := h.newKey(apikey.Spec{Name: "a", Plan: "free"})
	without := strings.Replace(byKey, "plans: {free: {", "plans: {gold: {", 1)
	write(t, h.file, without)
	if err := h.Reload(); err == nil || !strings.Contains(err.Error(), k.ID+" has the plan free") {
		t.Errorf("a reload: %v", err)
	}
	if got := h.with(secret, 1); got[200] != 1 {
		t.Errorf("after the refused reload: %v", got)
	}
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	var wrong *ConfigError
	if _, err := Start(h.options); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "plans: the API key "+k.ID) {
		t.Errorf("the start: %v", err)
	}
}

// Keys come and go with the file, and what they count stays.
func TestReloadTurnsKeysOnAndOff(t *testing.T) {
	off := basics + "waf: {enabled: false}\n"
	h := build(t, plan{yaml: off})
	folder := filepath.Join(filepath.Dir(h.file), "data")
	if got := h.with("the service's own", 1); got[200] != 1 || h.knownKeys() != nil {
		t.Errorf("no keys are configured, and a request with one is %v", got)
	}
	if found, _ := filepath.Glob(folder + "/*.db"); found != nil {
		t.Errorf("%v is there though nothing needs it", found)
	}
	reload := func(yaml string) {
		write(t, h.file, yaml)
		if err := h.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(off + "keys: {required: true}\n")
	k, secret := h.newKey(apikey.Spec{Name: "a"})
	if good, none := h.with(secret, 1), h.with("", 1); good[200] != 1 || none[401] != 1 {
		t.Errorf("turned on: with a key %v, without %v", good, none)
	}
	keys := h.knownKeys()
	reload(off + "keys: {required: true, header: X-Key}\n")
	if got := h.with(secret, 1); got[401] != 1 || h.knownKeys() != keys {
		t.Errorf("read in another header: %v, the same keys: %v", got, h.knownKeys() == keys)
	}
	reload(off)
	if got := h.with("", 1); got[200] != 1 || h.knownKeys() != nil {
		t.Errorf("turned off: %v", got)
	}
	reload(off + "keys: {required: true}\n")
	if again, err := h.knownKeys().Get(t.Context(), k.ID); err != nil || again.Name != "a" || h.with(secret, 1)[200] != 1 {
		t.Errorf("turned on again: %+v, %v", again, err)
	}
}

// Two processes cannot hold one embedded database: the second says so, does not start, and complains of nothing else.
func TestTwoHoldersOfTheDatabase(t *testing.T) {
	h := build(t, plan{yaml: byKey})
	if _, err := Start(h.options); !errors.Is(err, localdb.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	if said := h.logs.lines("cannot be read"); len(said) != 0 {
		t.Errorf("and the log says %v", said)
	}
	if _, _, err := OpenKeys(h.options); !errors.Is(err, localdb.ErrLocked) {
		t.Errorf("a command: %v, want ErrLocked", err)
	}
}

// With PostgreSQL down, a key that is not known is answered 503; the start does not wait for it. A reload moves to
// another database.
func TestKeysInPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	in := func(url string) string {
		return strings.Replace(byKey, "keys: {}", "keys: {postgres_url: \""+url+"\"}", 1)
	}
	server.Kill()
	h := build(t, plan{yaml: in(server.URL())})
	if got := h.with("weir_"+strings.Repeat("a", 62), 1); got[503] != 1 {
		t.Errorf("without the database: %v", got)
	}
	server.Run()
	deadline := time.Now().Add(30 * time.Second)
	for h.knownKeys().Failing() && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	_, secret := h.newKey(apikey.Spec{Name: "a"})
	if got := h.with(secret, 1); got[200] != 1 {
		t.Errorf("with it: %v", got)
	}
	write(t, h.file, byKey)
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := h.with(secret, 1); got[401] != 1 {
		t.Errorf("after a reload to the embedded database: %v", got)
	}
}

// Without a running Weir nobody can tell whose a key is, and explain says so.
func TestExplainWithoutTheDatabase(t *testing.T) {
	o, _ := options(t, plan{yaml: byKey})
	l := Load(o)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	h := build(t, plan{yaml: byKey})
	_, secret := h.newKey(apikey.Spec{Name: "a"})
	d, err := l.Explain(t.Context(), weir.Request{Method: "GET", Host: "a", Path: "/", Header: http.Header{"X-Api-Key": {secret}}}, time.Now())
	if err != nil || d.Reason != weir.KeyUnverifiable {
		t.Errorf("%v, %v", d.Reason, err)
	}
}
