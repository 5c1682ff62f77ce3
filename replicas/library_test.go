package replicas_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/middleware"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

// startLibrary runs a user of the library, with the middleware before s and the counts of a
// configuration's Redis, and returns its URL and its store.
func startLibrary(t testing.TB, s *service, yaml string) (string, *failover.Store) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c, problems, err := config.Load(file, nil)
	if err != nil || config.HasErrors(problems) {
		t.Fatal(err, problems)
	}
	p, problems := policy.Compile(c)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	timeout := time.Duration(c.Store.Redis.Timeout)
	shared, err := redis.New(redis.Options{URL: c.Store.Redis.URL, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxKeys: c.Store.Memory.MaxKeys})
	store := failover.New(shared, local, failover.Options{Timeout: timeout, Replicas: c.Store.Replicas})
	snapshot := &engine.Snapshot{Policy: p, Store: store, Respond: respond.New(embedded.RespondOptions(c))}
	m := middleware.New(engine.New(snapshot, journal.Discard(), time.Now), middleware.Options{})
	server := httptest.NewServer(m.Wrap(s))
	t.Cleanup(func() {
		server.Close()
		store.Close()
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		local.Close()
	})
	return server.URL, store
}
