package redis

import (
	"testing"
	"time"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/store/storetest"
)

// patience is a timeout for tests on a busy machine.
const patience = 20 * time.Second

// open returns a store at url that is closed with the test.
func open(t testing.TB, url string) *Store {
	t.Helper()
	return openWith(t, Options{URL: url, Timeout: patience})
}

func openWith(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// subject is a store under test, whose time is the server's: the same machine's.
func subject(s *Store) storetest.Subject {
	return storetest.Subject{Store: s, Now: time.Now, Advance: time.Sleep, Window: 400 * time.Millisecond}
}

func TestConformance(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		server := redistest.Start(t)
		storetest.Run(t, func(t *testing.T) storetest.Subject { return subject(open(t, server.URL())) })
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3)
		storetest.Run(t, func(t *testing.T) storetest.Subject { return subject(open(t, cluster.URL())) })
	})
	t.Run("cluster by one of its nodes", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3)
		storetest.Run(t, func(t *testing.T) storetest.Subject { return subject(open(t, cluster.Nodes[1].URL())) })
	})
}
