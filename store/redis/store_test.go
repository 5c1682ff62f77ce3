package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // of the error; empty where there is none
	}{
		{"plain", Options{URL: "redis://127.0.0.1:6379/2"}, ""},
		{"tls", Options{URL: "rediss://user:hush@redis.example:6380"}, ""},
		{"unix socket", Options{URL: "unix:///run/redis.sock"}, ""},
		{"cluster", Options{URL: "redis://a:1,redis://b:2, redis://c:3"}, ""},
		{"sentinels", Options{URL: "redis://a:1/3,redis://b:2/3", SentinelMaster: "weir"}, ""},
		{"empty", Options{}, "redis url: want redis://HOST:PORT"},
		{"no scheme", Options{URL: "127.0.0.1:6379"}, "redis url: want redis://HOST:PORT"},
		{"another scheme", Options{URL: "http://127.0.0.1:6379"}, "redis url: want redis://HOST:PORT"},
		{"one of several", Options{URL: "redis://a:1,b:2"}, "redis url: want redis://HOST:PORT"},
		{"secret", Options{URL: "redis://user:hush@a:port"}, "redis url: want redis://HOST:PORT"},
		{"database of a cluster", Options{URL: "redis://a:1/2,redis://b:2/2"}, "a Cluster has no databases"},
		{"a variable of the shell's", Options{URL: "redis://$REDIS_HOST:6379"}, "${NAME}"},
		{"database below zero", Options{URL: "redis://a:1/-1"}, "counted from 0"},
		{"ipv6", Options{URL: "redis://[2001:db8::5]:6379"}, ""},
		{"ipv6 without brackets", Options{URL: "redis://2001:db8::5:6379"}, "in brackets"},
		{"ipv6 without brackets, by password", Options{URL: "redis://u:hush@::1"}, "in brackets"},
		{"user without password", Options{URL: "redis://a:1", Username: "weir"}, "a user without a password"},
		{"password for a user", Options{URL: "redis://hush@a:1"}, "a user without a password"},
		{"default user", Options{URL: "redis://default@a:1"}, ""},
		{"sentinels' user without password", Options{URL: "redis://s@a:1", SentinelMaster: "weir", Username: "weir", Password: "hush"}, ""},
		{"braces", Options{URL: "redis://a:1", Prefix: "a{b}"}, "want no braces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.o)
			if err == nil {
				defer s.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("%v tells the password", err)
			}
		})
	}
}

// A user may stand in the URL, and his password beside it.
func TestUserInTheURL(t *testing.T) {
	o := Options{URL: "redis://weir@a:1", Username: "other", Password: "hush"}
	got, err := o.parse()
	if err != nil || got.client.Username != "weir" || got.client.Password != "hush" {
		t.Errorf("%+v, %v; want weir, hush", got, err)
	}
}

// hour is about an hour: a window that does not turn while tests of this package run, by the clock of real servers.
var hour = func() time.Duration {
	for w := time.Hour; ; w -= time.Minute {
		if begun := time.Duration(time.Now().UnixNano()) % w; begun < w-15*time.Minute {
			return w
		}
	}
}()

// every is a limit for each algorithm.
func every(most int64, w time.Duration) []*weir.Limit {
	return []*weir.Limit{
		{Algorithm: weir.SlidingWindow, Max: most, Window: w},
		{Algorithm: weir.SlidingLog, Max: most, Window: w},
		{Algorithm: weir.FixedWindow, Max: most, Window: w},
		{Algorithm: weir.TokenBucket, Max: most, Burst: most, Window: w},
		{Algorithm: weir.Quota, Max: most, Period: weir.Day},
		{Algorithm: weir.Concurrency, Max: most},
	}
}

// keyOf is the key of what was charged last in an empty server.
func keyOf(t *testing.T, s *Store, h weir.Hit) string {
	t.Helper()
	return counterKey(s.prefix, &h)
}

// ttl is how long a key has to live, in milliseconds: -1 for ever, -2 if it is not there.
func ttl(t *testing.T, server *redistest.Server, key string) int {
	t.Helper()
	n, ok := server.Do("PTTL", key).(int)
	if !ok {
		t.Fatalf("PTTL %s is no number", key)
	}
	return n
}

// CNT-21: a key lives no shorter than it matters, and no longer but for a quarter of a sliding window.
func TestExpiry(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	for _, l := range every(10, time.Minute) {
		h := hitOn(l, "ttl", 2)
		began := time.Now()
		out, err := take(s, h)
		if err != nil {
			t.Fatal(err)
		}
		want := out[0].ResetAfter.Milliseconds()
		if l.Algorithm == weir.Concurrency {
			want = leaseTerm.Milliseconds()
		}
		most := want
		if l.Algorithm == weir.SlidingWindow {
			most += l.Window.Milliseconds() / 4
		}
		got := int64(ttl(t, server, keyOf(t, s, h)))
		if gone := time.Since(began).Milliseconds(); got > most+4 || got < want-gone-1000 {
			t.Errorf("%v: expires in %d ms, want %d to %d", l.Algorithm, got, want, most)
		}
	}
}

// A key that is gone no sooner than it may be forgotten: one that lives on for a moment only.
func TestExpiresByItself(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	for _, l := range every(10, 50*time.Millisecond)[:4] {
		if _, err := take(s, hitOn(l, "brief", 1)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "forgotten", func() error {
		if n := server.Do("DBSIZE"); n != 0 {
			return fmt.Errorf("%v keys are left", n)
		}
		return nil
	})
}

// CNT-05: a key without an expiry gets one, and one that is not ours is no counter.
func TestKeysAreMended(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	plant := map[string][]string{
		"number": {"SET", "KEY", "999"}, "text": {"SET", "KEY", "not a counter, but something long that nobody here wrote"},
		"hash": {"HSET", "KEY", "a", "1"}, "set": {"ZADD", "KEY", "1", "a"},
	}
	for _, l := range every(1, hour) {
		for kind, command := range plant {
			if kind == "set" && l.Algorithm == weir.Concurrency {
				continue // that is a counter
			}
			h := hitOn(l, kind, 1)
			key := keyOf(t, s, h)
			command[1] = key
			server.Do(command...)
			if out, err := take(s, h); err != nil || !out[0].Allowed {
				t.Errorf("%v on a %s: %+v %v", l.Algorithm, kind, out, err)
			}
			if n := ttl(t, server, key); n <= 0 {
				t.Errorf("%v on a %s: expires in %d", l.Algorithm, kind, n)
			}
		}
		h := hitOn(l, "kept", 1)
		if _, err := take(s, h); err != nil {
			t.Fatal(err)
		}
		server.Do("PERSIST", keyOf(t, s, h))
		if out, err := take(s, h); err != nil || out[0].Allowed {
			t.Errorf("%v: %+v %v, want a refusal", l.Algorithm, out, err)
		}
		if n := ttl(t, server, keyOf(t, s, h)); n <= 0 {
			t.Errorf("%v: after a refusal expires in %d", l.Algorithm, n)
		}
	}
}

// TestRefusalTouchesNothing: a refusal does not even change an expiry.
func TestRefusalTouchesNothing(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	for _, l := range every(1, hour) {
		h := hitOn(l, "refused", 1)
		if _, err := take(s, h); err != nil {
			t.Fatal(err)
		}
		server.Do("PEXPIRE", keyOf(t, s, h), "12345678")
		if out, err := take(s, h); err != nil || out[0].Allowed {
			t.Errorf("%v: %+v %v, want a refusal", l.Algorithm, out, err)
		}
		if n := ttl(t, server, keyOf(t, s, h)); n < 12_000_000 {
			t.Errorf("%v: expires in %d ms", l.Algorithm, n)
		}
	}
}

// CON-01, CNT-27: exactly N pass, however many replicas ask at once, from the very first request.
func TestManyReplicas(t *testing.T) {
	server := redistest.Start(t)
	var replicas []*Store
	for range 8 {
		replicas = append(replicas, open(t, server.URL()))
	}
	for i := range 10 {
		for _, l := range every(10, hour) {
			n, failed := passes(400, func(k int) ([]weir.Status, error) {
				h := hitOn(l, strconv.Itoa(i), 1)
				h.Lease = uint64(k)
				return take(replicas[k%len(replicas)], h)
			})
			if n != 10 || failed != nil {
				t.Errorf("%v: %d passed, want 10; %v", l.Algorithm, n, failed)
			}
		}
	}
}

// CON-07: what the second limit refuses, the first is not charged.
func TestSeveralLimitsAtOnce(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	owner, key := &weir.Limit{Max: 10, Window: time.Hour}, &weir.Limit{Max: 2, Window: time.Hour}
	ask := func(k string) func(int) ([]weir.Status, error) {
		return func(int) ([]weir.Status, error) {
			mine := hitOn(key, "owner", 1)
			mine.Key = append(mine.Key, k...)
			if k == "k2" {
				mine.Limit = owner
			}
			out, err := take(s, mine, hitOn(owner, "owner", 1))
			if err == nil && !out[1].Allowed {
				out[0].Allowed = false
			}
			return out, err
		}
	}
	if n, failed := passes(20, ask("k1")); n != 2 || failed != nil {
		t.Errorf("k1: %d passed, %v", n, failed)
	}
	if n, failed := passes(9, ask("k2")); n != 8 || failed != nil {
		t.Errorf("k2: %d passed, want 8 of 9; %v", n, failed)
	}
}

// CNT-33, CNT-62: a new number keeps what was used, and refused requests were not.
func TestNewNumber(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	ask := func(most, n int64) weir.Status {
		out, err := take(s, hitOn(&weir.Limit{Max: most, Window: time.Hour}, "a", n))
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	ask(1000, 300)
	if st := ask(100, 1); st.Allowed || st.Remaining != 0 {
		t.Errorf("lowered: %+v", st)
	}
	if st := ask(500, 200); !st.Allowed || st.Remaining != 0 {
		t.Errorf("raised: %+v", st)
	}
	if st := ask(500, 1); st.Allowed {
		t.Errorf("over the new number: %+v", st)
	}
}

// CNT-07: the caller's clock does not matter.
func TestCallersClock(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	l := &weir.Limit{Algorithm: weir.TokenBucket, Max: 10, Burst: 10, Window: time.Hour}
	passed := 0
	for i := range 40 {
		skewed := time.Now().Add(time.Duration(i%2) * -240 * time.Hour).Add(time.Duration(i) * time.Hour)
		out := make([]weir.Status, 1)
		if err := s.Take(context.Background(), skewed, []weir.Hit{hitOn(l, "a", 1)}, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Allowed {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
}

// A client and limit takes at most 180 bytes of Redis.
func TestMemory(t *testing.T) {
	const clients = 25_000
	for _, l := range every(100, time.Hour)[:4] {
		if l.Algorithm == weir.SlidingLog {
			continue // 7 bytes a stamp more
		}
		server := redistest.Start(t)
		s := open(t, server.URL())
		if _, err := take(s, hitOn(l, "first", 1)); err != nil {
			t.Fatal(err)
		}
		before := server.Memory()
		keys := clientKeys(clients)
		for from := 0; from < clients; from += 100 {
			_, failed := passes(100, func(i int) ([]weir.Status, error) {
				key := keys[from+i]
				h := weir.Hit{Limit: l, Key: key, TagLen: tagLength(key), N: 1}
				if _, err := take(s, h); err != nil {
					return nil, err
				}
				return take(s, h)
			})
			if failed != nil {
				t.Fatal(failed[0])
			}
		}
		each := float64(server.Memory()-before) / clients
		t.Logf("%v: %.0f bytes a client", l.Algorithm, each)
		if each > 180 {
			t.Errorf("%v: %.0f bytes a client, want at most 180", l.Algorithm, each)
		}
	}
}
