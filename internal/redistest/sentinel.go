package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartSentinel starts a Sentinel that alone decides who takes over when master, which has replicas,
// is away for half a second. It returns once it knows that many of them.
func StartSentinel(t testing.TB, name string, master *Server, replicas int) *Server {
	t.Helper()
	s := &Server{Addr: freeAddr(t), t: t, dir: t.TempDir()}
	conf := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 1\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 2000\n", name, master.Port())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.file, s.args = conf, []string{"--sentinel"}
	s.Run()
	t.Cleanup(s.Kill)
	for until := time.Now().Add(2 * ready); ; time.Sleep(50 * time.Millisecond) {
		known, _ := s.Do("SENTINEL", "REPLICAS", name).([]any)
		if len(known) >= replicas {
			return s
		}
		if time.Now().After(until) {
			t.Fatalf("the Sentinel knows %d replicas, want %d", len(known), replicas)
		}
	}
}
