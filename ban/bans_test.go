package ban

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/store/redis"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A clock is turned by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)} }

// shared returns a register in Redis.
func shared(t *testing.T, server *redistest.Server) *redis.Store {
	t.Helper()
	s, err := redis.New(redis.Options{URL: server.URL(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func from(addr string) *weir.Client {
	a := netip.MustParseAddr(addr)
	p, _ := a.Prefix(32)
	if a.Is6() {
		p, _ = a.Prefix(64)
	}
	return &weir.Client{Addr: a, Prefix: p}
}

func (b *Bans) must(t *testing.T, text string, ban weir.Ban) {
	t.Helper()
	if _, err := b.Add(context.Background(), subject(t, text), ban); err != nil {
		t.Fatal(err)
	}
}

func (b *Bans) synced(t *testing.T) *Bans {
	t.Helper()
	if err := b.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	return b
}

// by is whose ban answers, as its subject, or nothing.
func (b *Bans) by(c *weir.Client) string {
	if ban := b.Find(b.o.Now(), c); ban != nil {
		return ban.Subject
	}
	return ""
}

// A ban ends to the instant, and with it uncovers the wider one.
func TestABanEnds(t *testing.T) {
	c := newClock()
	b := New(Options{Now: c.now})
	b.must(t, "203.0.113.7", weir.Ban{Until: c.at.Add(10 * time.Minute)})
	b.must(t, "203.0.113.0/24", weir.Ban{Until: c.at.Add(20 * time.Minute)})
	b.must(t, "key:a", weir.Ban{})
	for _, step := range []struct {
		after  time.Duration
		by     string
		listed int
	}{
		{0, "203.0.113.7/32", 3},
		{10*time.Minute - time.Millisecond, "203.0.113.7/32", 3},
		{10 * time.Minute, "203.0.113.0/24", 2},
		{20 * time.Minute, "", 1},
		{20 * 365 * 24 * time.Hour, "", 1},
	} {
		c.at = newClock().at.Add(step.after)
		if got := b.by(from("203.0.113.7")); got != step.by {
			t.Errorf("after %v: banned by %q, want %q", step.after, got, step.by)
		}
		if list, all := b.List(10); len(list) != step.listed || all != step.listed {
			t.Errorf("after %v: %d of %d listed, want %d", step.after, len(list), all, step.listed)
		}
		if b.synced(t); b.Count() != step.listed || b.by(&weir.Client{APIKey: "a"}) != "key:a" {
			t.Errorf("after %v: %d bans, of the key by %q", step.after, b.Count(), b.by(&weir.Client{APIKey: "a"}))
		}
	}
}

// The newest ban comes first, as it was made.
func TestList(t *testing.T) {
	c := newClock()
	b := New(Options{Now: c.now})
	b.must(t, "key:a", weir.Ban{Reason: "flood", Author: "admin"})
	c.at = c.at.Add(time.Second)
	b.must(t, "2001:db8::/32", weir.Ban{Until: c.at.Add(time.Hour)})
	want := []weir.Ban{
		{Subject: "2001:db8::/32", Since: c.at, Until: c.at.Add(time.Hour)},
		{Subject: "key:a", Since: c.at.Add(-time.Second), Reason: "flood", Author: "admin"},
	}
	got, all := b.List(2)
	if diff := cmp.Diff(want, got); diff != "" || all != 2 {
		t.Errorf("%d bans, -want +got:\n%s", all, diff)
	}
	if got, all := b.List(1); len(got) != 1 || all != 2 || got[0].Subject != "2001:db8::/32" {
		t.Errorf("%+v of %d", got, all)
	}
}

// What cannot be put in force is refused, and says why.
func TestBansThatAreRefused(t *testing.T) {
	c := newClock()
	b := New(Options{Now: c.now, Most: 2})
	b.must(t, "203.0.113.7", weir.Ban{})
	b.must(t, "203.0.113.8", weir.Ban{Until: c.at.Add(time.Minute)})
	for _, test := range []struct {
		who string
		ban weir.Ban
		err error
	}{
		{"203.0.113.9", weir.Ban{}, ErrFull},
		{"203.0.113.8", weir.Ban{Until: c.at}, errEnded},
		{"203.0.113.8", weir.Ban{Until: c.at.Add(Longest + time.Second)}, ErrTooLong},
		{"203.0.113.8", weir.Ban{Until: c.at.Add(Longest)}, nil}, // in the place of one that there is
	} {
		if _, err := b.Add(context.Background(), subject(t, test.who), test.ban); !errors.Is(err, test.err) {
			t.Errorf("%s %+v: %v, want %v", test.who, test.ban, err, test.err)
		}
	}
	if _, err := b.Remove(context.Background(), subject(t, "203.0.113.0/24")); !errors.Is(err, ErrNone) {
		t.Errorf("a ban that there is not is lifted: %v", err)
	}
}

// Bans that take each other's place cost no memory until the last one's end.
func TestReplacedBansAreForgotten(t *testing.T) {
	c := newClock()
	b := New(Options{Now: c.now})
	for i := range 3 * slack {
		b.must(t, "203.0.113.7", weir.Ban{Until: c.at.Add(time.Hour + time.Duration(i)*time.Second)})
	}
	if len(b.ends) > slack+3 {
		t.Errorf("%d bans wait for their end, and there is one", len(b.ends))
	}
	c.at = c.at.Add(2 * time.Hour)
	if b.synced(t); b.Count() != 0 || len(b.ends) != 0 {
		t.Errorf("%d bans, %d wait", b.Count(), len(b.ends))
	}
}

// A database that cannot be opened is told once, and nobody is banned in it.
func TestABrokenDatabase(t *testing.T) {
	broken, log := errors.New("broken"), new(bytes.Buffer)
	b := New(Options{Register: KeepIn(func(bool) (Database, error) { return nil, broken }), Log: slog.New(slog.NewTextHandler(log, nil))})
	for range 3 {
		if err := b.Sync(context.Background()); !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	if _, err := b.Add(context.Background(), subject(t, "203.0.113.7"), weir.Ban{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "bans cannot be read"); n != 1 || b.Count() != 0 {
		t.Errorf("%d lines, %d bans: %s", n, b.Count(), log)
	}
}

// What one replica does all others follow, be it so much at once that nobody knows all changes.
func TestReplicasFollow(t *testing.T) {
	server := redistest.Start(t)
	one := New(Options{Register: shared(t, server).Register("bans")}).synced(t)
	two := New(Options{Register: shared(t, server).Register("bans")}).synced(t)
	one.must(t, "203.0.113.7", weir.Ban{Reason: "flood"})
	two.synced(t).must(t, "key:a", weir.Ban{})
	one.synced(t)
	for name, b := range map[string]*Bans{"one": one, "two": two} {
		if b.by(from("203.0.113.7")) == "" || b.by(&weir.Client{APIKey: "a"}) == "" {
			t.Errorf("%s knows %d bans, want both", name, b.Count())
		}
	}
	if _, err := two.Remove(context.Background(), subject(t, "203.0.113.7")); err != nil {
		t.Error(err)
	}
	if one.synced(t); one.by(from("203.0.113.7")) != "" {
		t.Error("a ban that the other replica lifted holds")
	}
	for i := range 1100 { // more than are kept of the last changes
		text, _ := write(&weir.Ban{Since: time.Now()})
		if err := two.o.Register.Put(context.Background(), fmt.Sprintf("198.18.%d.%d/32", i>>8, i&255), text); err != nil {
			t.Fatal(err)
		}
	}
	if one.synced(t); one.Count() != 1101 || one.by(from("198.18.4.75")) == "" {
		t.Errorf("%d bans, want 1101", one.Count())
	}
	server.Do("FLUSHALL")
	if one.synced(t); one.Count() != 0 {
		t.Errorf("%d bans are left, and Redis has none", one.Count())
	}
	two.must(t, "203.0.113.9", weir.Ban{})
	if one.synced(t); one.by(from("203.0.113.9")) == "" || one.Count() != 1 {
		t.Errorf("%d bans, want the new one", one.Count())
	}
}

// While Redis is away, known bans hold and new ones are refused; when it is back, what happened is followed.
func TestRedisGoesAndComes(t *testing.T) {
	server, log := redistest.Start(t), new(bytes.Buffer)
	one := New(Options{Register: shared(t, server).Register("bans"), Log: slog.New(slog.NewTextHandler(log, nil))}).synced(t)
	other := New(Options{Register: shared(t, server).Register("bans")}).synced(t)
	one.must(t, "203.0.113.7", weir.Ban{})
	server.Freeze()
	if err := one.Sync(context.Background()); err == nil || one.by(from("203.0.113.7")) == "" {
		t.Errorf("%v; the known ban: %q", err, one.by(from("203.0.113.7")))
	}
	if _, err := one.Add(context.Background(), subject(t, "203.0.113.8"), weir.Ban{}); err == nil || !strings.Contains(err.Error(), "nobody is banned: redis 127.0.0.1:") {
		t.Errorf("a ban that cannot be kept: %v", err)
	}
	server.Thaw()
	other.synced(t).must(t, "203.0.113.9", weir.Ban{})
	if one.synced(t); one.by(from("203.0.113.9")) == "" || one.by(from("203.0.113.8")) != "" {
		t.Errorf("%d bans afterwards", one.Count())
	}
	if text := log.String(); strings.Count(text, "bans cannot be read") != 1 || strings.Count(text, "bans are read again") != 1 {
		t.Error(text)
	}
}

// A ban that ended is removed for all, but not one that another replica has made anew meanwhile.
func TestForgetting(t *testing.T) {
	server, c := redistest.Start(t), newClock()
	s := shared(t, server)
	one := New(Options{Register: s.Register("bans"), Now: c.now}).synced(t)
	two := New(Options{Register: s.Register("bans"), Now: c.now}).synced(t)
	one.must(t, "203.0.113.7", weir.Ban{Until: c.at.Add(time.Second)})
	c.at = c.at.Add(time.Minute)
	one.synced(t)
	two.must(t, "203.0.113.7", weir.Ban{})
	one.forget(context.Background())
	if n := server.Do("HLEN", "weir:{bans}:texts"); n != 1 {
		t.Fatalf("%v bans are kept, want the new one", n)
	}
	if one.synced(t).forget(context.Background()); one.by(from("203.0.113.7")) == "" {
		t.Error("the new ban is gone")
	}
	one.must(t, "203.0.113.7", weir.Ban{Until: c.at.Add(time.Second)})
	c.at = c.at.Add(time.Minute)
	one.synced(t).forget(context.Background())
	if n := server.Do("HLEN", "weir:{bans}:texts"); n != 0 {
		t.Errorf("%v bans are kept, want none", n)
	}
	one.must(t, "203.0.113.7", weir.Ban{Until: c.at.Add(time.Second)})
	c.at = c.at.Add(time.Minute)
	late := New(Options{Register: s.Register("bans"), Now: c.now}).synced(t) // nobody saw it end
	if late.forget(context.Background()); server.Do("HLEN", "weir:{bans}:texts") != 0 {
		t.Error("a ban that ended while nobody ran is kept")
	}
}

// What cannot be understood hurts nobody but itself.
func TestAStrangersText(t *testing.T) {
	server := redistest.Start(t)
	for name, text := range map[string]string{"nobody": "{}", "203.0.113.7/32": "junk", "203.0.113.8/32": `{"since":1}`, "203.0.113.9": `{"since":1}`} {
		server.Do("HSET", "weir:{bans}:texts", name, text)
	}
	b := New(Options{Register: shared(t, server).Register("bans")})
	server.Do("SET", "weir:{bans}:version", "5")
	if b.synced(t); b.Count() != 2 || b.by(from("203.0.113.8")) == "" || b.by(from("203.0.113.9")) == "" {
		t.Errorf("%d bans, want 2", b.Count())
	}
}

// Run follows by itself.
func TestRun(t *testing.T) {
	server := redistest.Start(t)
	one := New(Options{Register: shared(t, server).Register("bans"), Every: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() { one.Run(ctx); close(done) }()
	New(Options{Register: shared(t, server).Register("bans")}).must(t, "203.0.113.7", weir.Ban{})
	for until := time.Now().Add(30 * time.Second); one.Count() == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if one.Count() != 1 {
		t.Errorf("%d bans, want that of the other replica", one.Count())
	}
}
