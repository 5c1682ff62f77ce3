package journal

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
)

// A clock is set by the test.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

// playing returns a journal on a clock, and a function that records n requests at that time.
func playing(o Options) (*Journal, *clock, func(n int, d *weir.Decision)) {
	c := &clock{noon}
	o.Now = c.read
	j := New(o)
	return j, c, func(n int, d *weir.Decision) {
		for range n {
			d.At = c.now
			j.Record(d, weir.Outcome{HTTP: d.HTTP})
		}
	}
}

// With no limit configured at all, who asks most is known.
func TestTopNeedsNoLimit(t *testing.T) {
	j, _, record := playing(Options{})
	quiet, loud := from(passed(search), "198.51.100.1"), from(refused(search, weir.Reject), "203.0.113.7")
	quiet.Hits, quiet.Statuses, quiet.Request.Path = nil, nil, "/users/12/orders"
	record(3, quiet)
	record(9, loud)
	loud.Client.Source = weir.Forwarded
	record(1, loud) // the same client, found in another way

	for by, want := range map[Ranking][]Talker{
		ByClient: {{Key: "203.0.113.7/32", Source: "direct", Requests: 10, Refused: 10}, {Key: "198.51.100.1/32", Source: "direct", Requests: 3}},
		ByPath:   {{Key: "/api/search", Requests: 10, Refused: 10}, {Key: "/users/*/orders", Requests: 3}},
		ByRule:   {{Key: "search", Requests: 13, Refused: 10}},
		ByShadow: nil,
	} {
		for within, pieces := range []int{Minute: 7, Hour: 13, Day: 25} {
			got := j.Top(TopQuery{By: by, Within: Window(within), Most: 10})
			if got.Requests != 13 || got.Refused != 10 {
				t.Errorf("ranking %d, window %d: %d requests, %d refused; want 13 and 10", by, within, got.Requests, got.Refused)
			}
			for i, talker := range got.Talkers {
				if len(talker.Spark) != pieces || talker.Spark[pieces-1] != talker.Requests {
					t.Errorf("ranking %d, window %d: spark %v, want %d pieces and all in the last", by, within, talker.Spark, pieces)
				}
				got.Talkers[i].Spark = nil
			}
			if diff := cmp.Diff(want, got.Talkers); diff != "" {
				t.Errorf("ranking %d, window %d, -want +got:\n%s", by, within, diff)
			}
		}
	}
}

// A window forgets what is older than it, and no sooner.
func TestWindowsMove(t *testing.T) {
	for within, length := range []time.Duration{Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour} {
		j, c, record := playing(Options{})
		record(5, passed(search))
		step := j.Top(TopQuery{Within: Window(within)}).Step
		requests := func() uint64 { return j.Top(TopQuery{Within: Window(within), Most: 1}).Requests }
		for c.now.Before(noon.Add(length)) {
			if requests() != 5 {
				t.Fatalf("window %d forgot at %s", within, c.now.Sub(noon))
			}
			c.now = c.now.Add(step)
		}
		if c.now = noon.Add(length + step - time.Nanosecond); requests() != 5 {
			t.Errorf("window %d forgot a nanosecond too soon", within)
		}
		if c.now = noon.Add(length + step); requests() != 0 {
			t.Errorf("window %d still counts what is older than itself and a piece", within)
		}
	}
}

// Where nobody reads and nothing runs in the background, memory is bounded all the same.
func TestNobodyReads(t *testing.T) {
	j, c, record := playing(Options{})
	for range 100 {
		record(1, passed(search))
		c.now = c.now.Add(slotTime)
	}
	if n := len(j.talkers.closed); n != mostClosed {
		t.Errorf("%d slots wait, want %d", n, mostClosed)
	}
	if n := j.Top(TopQuery{Within: Hour}).Requests; n != mostClosed {
		t.Errorf("%d requests in the hour, want those of %d slots", n, mostClosed)
	}
}

// Among 50 that are equal, one that asks 100 times as much is the first, beyond doubt.
func TestOneThatAsksMuchIsFirst(t *testing.T) {
	j, c, record := playing(Options{})
	random := rand.New(rand.NewPCG(5, 6))
	for range 10 {
		for range 100 {
			record(1, from(passed(search), fmt.Sprintf("198.51.100.%d", random.IntN(50))))
			record(2, from(passed(search), "203.0.113.7"))
		}
		c.now = c.now.Add(time.Second)
	}
	top := j.Top(TopQuery{By: ByClient, Within: Minute, Most: 2}).Talkers
	if top[0].Key != "203.0.113.7/32" || top[0].Requests != 2000 || top[0].Error != 0 || top[1].Requests+top[1].Error >= top[0].Requests {
		t.Errorf("%+v", top)
	}
}

// Merged over windows, for a crowd that no sketch can hold, the bounds are bounds.
func TestBoundsHoldOverWindows(t *testing.T) {
	j, c, record := playing(Options{})
	random := rand.New(rand.NewPCG(7, 8))
	zipf, exact := rand.NewZipf(random, 1.2, 1, 1<<12-1), map[string]uint64{}
	for i := range 20_000 {
		if i%160 == 0 {
			j.settle()
			j.talkers.finish(c.now) // as Run does
		}
		n := zipf.Uint64()
		d := from(passed(search), fmt.Sprintf("10.%d.%d.1", n>>8, n&255))
		record(1, d)
		exact[d.Client.Key()]++
		c.now = c.now.Add(60 * time.Millisecond)
	}
	for _, talker := range j.Top(TopQuery{By: ByClient, Within: Hour, Most: 1024}).Talkers {
		if n := exact[talker.Key]; n < talker.Requests || n > talker.Requests+talker.Error {
			t.Fatalf("%s asked %d times; the top says %d to %d", talker.Key, n, talker.Requests, talker.Requests+talker.Error)
		}
	}
	for key, n := range exact {
		if n < 10 {
			continue
		}
		if use := j.Use(key, Hour); n < use.Requests || n > use.Requests+use.Error {
			t.Fatalf("%s asked %d times; Use says %d to %d", key, n, use.Requests, use.Requests+use.Error)
		}
	}
}

func TestShadowNamesWhoWouldBeHurt(t *testing.T) {
	j, _, record := playing(Options{})
	hurt := from(passed(search), "203.0.113.7")
	hurt.Statuses = append(hurt.Statuses, weir.Status{Limit: trial})
	record(4, hurt)
	record(9, from(passed(search), "198.51.100.1"))
	want := []Talker{{Key: "203.0.113.7/32", Source: "direct", Requests: 4, Spark: []uint64{0, 0, 0, 0, 0, 0, 4}}}
	if diff := cmp.Diff(want, j.Top(TopQuery{By: ByShadow, Most: 5}).Talkers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOrderByRefusals(t *testing.T) {
	j, _, record := playing(Options{})
	record(9, from(passed(search), "198.51.100.1"))
	record(2, from(refused(search, weir.Reject), "203.0.113.7"))
	top := j.Top(TopQuery{ByRefused: true, Most: 1}).Talkers
	if len(top) != 1 || top[0].Key != "203.0.113.7/32" {
		t.Errorf("%+v", top)
	}
}

// What identifies a client survives its few bytes.
func TestClientsAreWrittenAndRead(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, c := range []weir.Client{
		{Prefix: prefix("203.0.113.7/32"), Source: weir.Forwarded},
		{Prefix: prefix("203.0.113.0/24"), Source: weir.FromHeader},
		{Prefix: prefix("2001:db8:1:2::/64"), Source: weir.AllTrusted},
		{Source: weir.Unresolved, Via: netip.MustParseAddr("10.0.0.1")},
		{Source: weir.Unresolved, Via: netip.MustParseAddr("2001:db8::1")},
		{Source: weir.Unresolved, ViaUnix: true},
		{Source: weir.Unresolved},
	} {
		var key clientKey
		key.write(&c)
		got := key.read()
		if diff := cmp.Diff(c, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// Neighbours are spread as by chance: 250 hashes hit about 222 of 1024 places, wherever the addresses differ.
func TestNeighboursAreSpread(t *testing.T) {
	for range 20 {
		talkers := newTalkers() // with other secrets
		for octet := 1; octet < 17; octet++ {
			key, places := clientKey{17: 128}, map[uint64]bool{}
			for i := range 250 {
				key[octet] = byte(i)
				places[talkers.clientHash(&key)>>54] = true
			}
			if n := len(places); n < 195 || n > 245 {
				t.Errorf("250 addresses that differ in octet %d hit %d places, want about 222", octet, n)
			}
		}
	}
}

func TestPathsAreFolded(t *testing.T) {
	for path, want := range map[string]string{
		"/":                             "/",
		"/api/search":                   "/api/search",
		"/users/12/orders":              "/users/*/orders",
		"/v1/users":                     "/v1/users",
		"/oauth2/token/":                "/oauth2/token/",
		"/a/b/c/d":                      "/a/b/c/d",
		"/a/b/c/d/e":                    "/a/b/c/d/*",
		"/a/b/c/d/":                     "/a/b/c/d/*",
		"/f47ac10b-58cc-4372-a567-0e02": "/*",
		"/static/app.3f2a1b.js":         "/static/*",
		"/blog/2026-03-01":              "/blog/*",
		"/search/" + strings.Repeat("x", mostLetters+1): "/search/*",
		"/search/" + strings.Repeat("x", mostLetters):   "/search/" + strings.Repeat("x", mostLetters),
		"/caf%C3%A9/menu": "/*/menu",
		"//a":             "//a",
		"*":               "/*",
		"/" + strings.Repeat("abcdefghijklmnopqrstuvw/", 9): "/abcdefghijklmnopqrstuvw/abcdefghijklmnopqrstuvw/*",
	} {
		if got := string(appendFolded(nil, path)); got != want {
			t.Errorf("%s is folded to %s, want %s", path, got, want)
		}
	}
}

func FuzzPathsAreFolded(f *testing.F) {
	f.Add("/users/12/orders")
	f.Add("/a//b/\x00/%2f")
	f.Fuzz(func(t *testing.T, path string) {
		got := string(appendFolded(nil, path))
		if len(got) > 64 || path != "" && (got == "" || got[0] != '/') {
			t.Fatalf("%q is folded to %q", path, got)
		}
		if again := string(appendFolded(nil, got)); len(again) > 64 {
			t.Fatalf("%q is folded to %q", got, again)
		}
	})
}

// The metric of top clients writes addresses as the log does.
func TestTopClientsMetric(t *testing.T) {
	j, _, record := playing(Options{TopClients: 2})
	record(3, from(passed(search), "203.0.113.7"))
	record(2, from(passed(search), "198.51.100.1"))
	record(1, from(passed(search), "192.0.2.1"))
	want := map[string]float64{
		`weir_top_client_requests{client="203.0.113.0/24",rank="1"}`:  3,
		`weir_top_client_requests{client="198.51.100.0/24",rank="2"}`: 2,
	}
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_top_client")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	j.SetLog(Full, 0)
	j.SetTopClients(1)
	want = map[string]float64{`weir_top_client_requests{client="203.0.113.7/32",rank="1"}`: 3}
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_top_client")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	j.SetTopClients(0)
	if got := withPrefix(scrape(t, j), "weir_top_client"); len(got) > 0 {
		t.Errorf("%v, want none", got)
	}
}

// A million clients over a day take at most 30 MB.
func TestMemoryOfAMillionClients(t *testing.T) {
	racing.Skip(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	j, c, _ := playing(Options{})
	d := refused(search, weir.Reject)
	d.Statuses = append(d.Statuses, weir.Status{Limit: trial})
	for i := range 1_000_000 {
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], uint32(i)*2654435761)
		d.Client.Addr = netip.AddrFrom4(addr)
		d.Client.Prefix = netip.PrefixFrom(d.Client.Addr, 32)
		d.At = c.now
		j.Record(d, weir.Outcome{HTTP: 429})
		if i%10_000 == 0 {
			c.now = c.now.Add(15 * time.Minute)
			j.settle()
			j.talkers.finish(c.now)
		}
	}
	for within := range windows {
		j.Top(TopQuery{Within: Window(within), Most: 20})
	}
	if used := int64(heap()) - int64(before); used > 30<<20 {
		t.Errorf("%d MB, want at most 30", used>>20)
	}
	runtime.KeepAlive(j)
}

// One client, a few, and more than any sketch can hold, on one processor and on all.
func BenchmarkRecordOfManyClients(b *testing.B) {
	for _, clients := range []uint32{1, 50, 1_000_000} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			j := New(Options{Rules: []string{"search"}})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				d, n := passed(search), rand.Uint32()
				for pb.Next() {
					n = n*1664525 + 1013904223
					var addr [4]byte
					binary.BigEndian.PutUint32(addr[:], n%clients)
					d.Client.Addr = netip.AddrFrom4(addr)
					d.Client.Prefix = netip.PrefixFrom(d.Client.Addr, 32)
					j.Record(d, ok)
				}
			})
		})
	}
}
