package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirgate/weir/internal/redistest"
)

// counting is a configuration whose counts outlive the process, in a folder.
const counting = basics + "data_dir: %q\nrules: [{name: api, path: /api, limits: [{quota: 3/day}]}]\n"

// A reload that fails after the configuration was read opens nothing; one that succeeds puts policy and
// store in force at once.
func TestFailedReloadOpensNoStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	h := build(t, plan{yaml: limited(1000), env: []string{"WEIR_DATA_DIR=" + folder}})
	rename(t, h.file, fmt.Sprintf(counting, folder))
	loaded := Load(h.options)
	if err := loaded.Err(); err != nil {
		t.Fatal(err)
	}
	loaded.Config.Upstream = "http://%zz" // what no configuration that was read has
	before, store := h.engine.Current(), h.store.Store
	if err := h.put(loaded); err == nil {
		t.Fatal("an upstream without a host is in force")
	}
	if h.engine.Current() != before || h.store.Store != store || h.store.db != nil {
		t.Error("the failed reload left something in force")
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the failed reload made %s: %v", folder, err)
	}
	h.reloads(fmt.Sprintf(counting, folder))
	if h.engine.Current().Store != h.store.Store || h.store.Store == store {
		t.Error("the new policy counts in the old store")
	}
	if got := h.passes(5, "/api"); got != 3 {
		t.Errorf("%d of 5 passed against 3/day", got)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

// FAL-20: a caller of the rate limit service whose deadline is shorter than the store's timeout is answered within it,
// and a metric counts such calls.
func TestShortDeadlineIsCounted(t *testing.T) {
	server := redistest.Start(t)
	p, _ := withDescriptors(t, twoAYear)
	p.yaml += fmt.Sprintf("store: {redis: {url: %q, timeout: 2s}}\n", server.URL())
	h := build(t, p)
	rls := pb.NewRateLimitServiceClient(h.dial("rls.listen"))
	if _, err := rls.ShouldRateLimit(t.Context(), oneOf("x")); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	defer server.Thaw()
	const series = `weir_store_failures_total{kind="short_deadline"}`
	if n := h.metric(series); n != 0 {
		t.Errorf("%s is %v while Redis answers", series, n)
	}
	eventually(t, series, func() bool { // a busy machine may be later than the caller
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rls.ShouldRateLimit(ctx, oneOf("x"))
		return err == nil && h.metric(series) > 0
	})
}

// FAL-19, CFG-12: what should be changed about Redis is a line and a metric, and so is another policy
// under the same prefix, by name and until it is the same.
func TestStoreFindings(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	yaml := limited(5) + fmt.Sprintf("store: {redis: {url: %q, timeout: 5s}}\n", server.URL())
	one := build(t, plan{yaml: yaml})
	const evicts, other = `weir_store_finding{finding="evicts"}`, `weir_store_finding{finding="other_policy"}`
	eventually(t, evicts, func() bool { return one.metric(evicts) == 1 })
	if lines := one.logs.lines("maxmemory-policy"); len(lines) != 1 || lines[0]["server"] != server.Addr {
		t.Errorf("%v, want one line about %s", lines, server.Addr)
	}
	eventually(t, "an announcement", func() bool { return server.Do("EXISTS", "weir:{weir}:policy") == 1 })
	elsewhere := func(o *Options) { o.Listen = new("localhost:0") }
	two := build(t, plan{yaml: strings.Replace(yaml, "5/1h", "6/1h", 1), edit: elsewhere})
	eventually(t, other, func() bool { return two.metric(other) == 1 })
	lines := two.logs.lines("another policy")
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["other replica"]), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("%v, want one line that names the other", lines)
	}
	if got := one.metric(other); got != 0 {
		t.Errorf("%s is %v before the next look", other, got)
	}
}
