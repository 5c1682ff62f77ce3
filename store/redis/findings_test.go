package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// What a server tells of itself, and what is found in it. The lines are as Redis 7.0 and Valkey 8 write
// them.
func TestJudge(t *testing.T) {
	const well = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\n"
	change := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(well) }
	one, several := "redis://a:1", "redis://a:1,redis://b:2"
	for _, c := range []struct {
		name, url, master, info string
		want                    []Finding
	}{
		{"well", one, "", well, nil},
		{"nothing", one, "", "", nil},
		{"no such field", one, "", "redis_mode:standalone\r\nrole:master\r\n", nil},
		{"least recently used", one, "", change("noeviction", "allkeys-lru"), []Finding{Evicts}},
		{"only what expires, as all does", one, "", change("noeviction", "volatile-ttl"), []Finding{Evicts}},
		{"replica", one, "", change("role:master", "role:slave\r\nslave_read_only:1"), []Finding{ReadOnly}},
		{"replica that may be written to", one, "", change("role:master", "role:slave\r\nslave_read_only:0"), nil},
		{"replica that was the master", one, "weir", change("role:master", "role:slave\r\nslave_read_only:1"), nil},
		{"one of a Cluster", one, "", change("standalone", "cluster"), []Finding{OneNode}},
		{"replica of a Cluster, which tells of the slots", several, "", change("standalone", "cluster", "role:master", "role:slave\r\nslave_read_only:1"), nil},
		{"Cluster", several, "", change("standalone", "cluster"), nil},
		{"no Cluster", several, "", change("noeviction", "allkeys-lfu"), []Finding{Evicts, NoCluster}},
		{"Sentinel", one, "", "redis_mode:sentinel\r\nmaxmemory_policy:noeviction\r\n", []Finding{IsSentinel}},
		{"a field within another", one, "", "x_maxmemory_policy:allkeys-lru\r\n", nil},
	} {
		o := Options{URL: c.url, SentinelMaster: c.master}
		target, err := o.parse()
		if err != nil {
			t.Fatal(err)
		}
		var got []Finding
		for _, f := range Findings() {
			if target.judge(c.info)&f.bit() != 0 {
				got = append(got, f)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A ledger is the log lines of a store.
type ledger struct {
	mu    sync.Mutex
	lines []map[string]string
}

func (l *ledger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(p) {
		fields := map[string]string{}
		if err := json.Unmarshal(line, &fields); err != nil {
			return 0, err
		}
		l.lines = append(l.lines, fields)
	}
	return len(p), nil
}

// about returns what stands in a field of each line about a finding.
func (l *ledger) about(f Finding, field string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if line["msg"] == advice[f] {
			all = append(all, line[field])
		}
	}
	return all
}

// openTelling is open with a log.
func openTelling(t *testing.T, o Options) (*Store, *ledger) {
	t.Helper()
	l := new(ledger)
	o.Timeout, o.Logger = patience, slog.New(slog.NewJSONHandler(l, nil))
	return openWith(t, o), l
}

// found waits until exactly those findings are there.
func found(t *testing.T, s *Store, want ...Finding) {
	t.Helper()
	eventually(t, "what is found", func() error {
		for _, f := range Findings() {
			if s.Found(f) != slices.Contains(want, f) {
				return fmt.Errorf("%v: %v", f, s.Found(f))
			}
		}
		return nil
	})
}

// lookAgain has the servers looked at, as a new connection has.
func lookAgain(s *Store) { s.target.connected() }

// FAL-19: a server that drops counters is told of once, and again after it was mended. Nobody has to ask
// for a count first.
func TestEvictionIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	s, log := openTelling(t, Options{URL: server.URL()})
	found(t, s, Evicts)
	server.Do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	lookAgain(s)
	time.Sleep(2 * pause) // what is found stays, so there is nothing to wait for
	if diff := cmp.Diff([]string{server.Addr}, log.about(Evicts, "server")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	lookAgain(s)
	found(t, s)
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	lookAgain(s)
	found(t, s, Evicts)
	if n := len(log.about(Evicts, "server")); n != 2 {
		t.Errorf("%d lines, want one for each time that it became so", n)
	}
}

// FAL-19: another server behind the same address is looked at when it is connected to.
func TestAnotherServerIsLookedAt(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t, "--maxmemory-policy", "allkeys-random")
	front := startForwarder(t, first.Addr)
	s, log := openTelling(t, Options{URL: "redis://" + front.addr})
	l := &weir.Limit{Max: 10, Window: time.Hour}
	mustTake(t, s, hitOn(l, "a", 1))
	time.Sleep(2 * pause)
	found(t, s)
	front.to(second.Addr)
	first.Kill()
	eventually(t, "the other server", func() error { _, err := take(s, hitOn(l, "a", 1)); return err })
	found(t, s, Evicts)
	if diff := cmp.Diff([]string{front.addr}, log.about(Evicts, "server")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A user who may not ask is not told, and counts.
func TestNotAllowedToLook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	server.Do("ACL", "SETUSER", "weir", "on", ">hush", "~*", "-@all", "+ping", "+eval", "+evalsha", "+time", "+mget", "+set")
	s, log := openTelling(t, Options{URL: server.URL(), Username: "weir", Password: "hush"})
	s.Announce("a", "this")
	mustTake(t, s, hitOn(&weir.Limit{Max: 10, Window: time.Hour}, "a", 1))
	time.Sleep(2 * pause)
	found(t, s)
	if len(log.lines) != 0 {
		t.Errorf("told %v", log.lines)
	}
}

// How servers are named wrongly is one line, however many of them there are.
func TestNamesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		start func(t *testing.T) Options
		want  Finding
	}{
		"replica": {func(t *testing.T) Options {
			return Options{URL: redistest.Start(t, "--replicaof", "127.0.0.1 "+redistest.Start(t).Port()).URL()}
		}, ReadOnly},
		"one node": {func(t *testing.T) Options { return Options{URL: redistest.StartCluster(t, 3).Nodes[2].URL()} }, OneNode},
		"Sentinel": {func(t *testing.T) Options {
			return Options{URL: redistest.StartSentinel(t, "weir", redistest.Start(t), 0).URL()}
		}, IsSentinel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, log := openTelling(t, c.start(t))
			found(t, s, c.want)
			for i := range 20 { // in all slots
				_, _ = take(s, hitOn(&weir.Limit{Max: 10, Window: time.Hour}, fmt.Sprint(i), 1)) // a replica fails
			}
			lookAgain(s)
			time.Sleep(2 * pause)
			found(t, s, c.want)
			if n := len(log.about(c.want, "server")); n != 1 || len(log.lines) != 1 {
				t.Errorf("%v, want one line", log.lines)
			}
		})
	}
}

// The user that the documentation proposes may do all that is done on one server, and is told what is found.
func TestDocumentedUser(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "ACL SETUSER weir on ")
	rules, _, _ := strings.Cut(rest, "\n")
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	server.Do(append([]string{"ACL", "SETUSER", "weir", "on"}, strings.Fields(strings.ReplaceAll(rules, "'", ""))...)...)
	s, _ := openTelling(t, Options{URL: server.URL(), Username: "weir", Password: "SECRET"})
	s.Announce("aaaa", "web-1")
	found(t, s, Evicts)
	for _, l := range every(3, time.Minute) {
		for range 4 {
			mustTake(t, s, hitOn(l, l.Algorithm.String(), 1))
		}
	}
	s.renew(s.leases.due(s.clock() + s.leases.term))
	if err := s.Reset(context.Background(), []weir.Hit{hitOn(every(3, time.Minute)[1], "a", 1)}); err != nil {
		t.Error(err)
	}
	if n := server.Do("ACL", "LOG"); len(n.([]any)) != 0 {
		t.Errorf("refused: %v", n)
	}
}

// What is known of a Cluster outlasts its silence, and is not told of a second time.
func TestSilenceForgetsNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Nodes {
		node.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	}
	s, log := openTelling(t, Options{URL: cluster.URL()})
	found(t, s, Evicts)
	known := s.survey(map[string]findings{})
	for _, node := range cluster.Nodes {
		node.Kill()
	}
	if diff := cmp.Diff(known, s.survey(known)); diff != "" || !s.Found(Evicts) {
		t.Errorf("found %v (-before +in silence):\n%s", s.Found(Evicts), diff)
	}
	if n := len(log.about(Evicts, "server")); n != 2*len(cluster.Nodes) { // once by itself, once by the test
		t.Errorf("%d lines, want one for each node and look that knew nothing", n)
	}
}
