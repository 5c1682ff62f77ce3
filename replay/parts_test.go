package replay

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/replay/accesslog"
)

// order feeds times, in seconds, and returns those of the lines that come out, with their numbers.
func order(span time.Duration, most int, times ...int64) (out [][2]int64, late int64) {
	w := window{span: int64(span), most: most, emit: func(l *accesslog.Line) {
		out = append(out, [2]int64{l.Number, l.At / int64(time.Second)})
	}}
	for i, at := range times {
		w.add(&accesslog.Line{Number: int64(i), At: at * int64(time.Second)})
	}
	w.flush()
	return out, w.late
}

// Lines come out by time, those of one time in the order of the log; what is further behind than the
// window is late, and counts at the time that the log has come to.
func TestWindow(t *testing.T) {
	tests := []struct {
		name  string
		most  int
		times []int64
		want  [][2]int64
		late  int64
	}{
		{"in order, and ties", 9, []int64{1, 1, 2, 2}, [][2]int64{{0, 1}, {1, 1}, {2, 2}, {3, 2}}, 0},
		{"a stray, and its tie", 9, []int64{5, 7, 5, 6, 7}, [][2]int64{{0, 5}, {2, 5}, {3, 6}, {1, 7}, {4, 7}}, 0},
		{"behind by less than the window", 9, []int64{0, 59, 0}, [][2]int64{{0, 0}, {2, 0}, {1, 59}}, 0},
		{"behind by the window", 9, []int64{0, 60, 1, 0}, [][2]int64{{0, 0}, {3, 0}, {2, 1}, {1, 60}}, 0},
		{"further behind", 9, []int64{10, 80, 140, 10}, [][2]int64{{0, 10}, {1, 80}, {3, 80}, {2, 140}}, 1},
		{"more lines than may wait", 2, []int64{3, 4, 5, 1}, [][2]int64{{0, 3}, {3, 3}, {1, 4}, {2, 5}}, 1},
	}
	for _, tt := range tests {
		got, late := order(time.Minute, tt.most, tt.times...)
		if diff := cmp.Diff(tt.want, got); diff != "" || late != tt.late {
			t.Errorf("%s: %d late, want %d (-want +got):\n%s", tt.name, late, tt.late, diff)
		}
	}
}

// Whatever the disorder within the window, the lines come out sorted, and stably.
func TestWindowSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	times := make([]int64, 20_000)
	for i := range times {
		times[i] = int64(i)/10 + r.Int64N(50)
	}
	got, late := order(time.Minute, 1<<20, times...)
	sorted := slices.IsSortedFunc(got, func(a, b [2]int64) int {
		if a[1] == b[1] {
			return int(a[0] - b[0])
		}
		return int(a[1] - b[1])
	})
	if !sorted || late != 0 || len(got) != len(times) {
		t.Errorf("%d of %d lines, %d late, sorted: %v", len(got), len(times), late, sorted)
	}
}

// A table counts as a map does, through growth, up to its bound and no further.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	tab, want := table{most: 1 << 20}, map[uint64]uint32{}
	for range 200_000 {
		hash := r.Uint64N(50_000) * 0x9e3779b97f4a7c15
		s, found := tab.find(hash)
		if found != (want[max(hash, 1)] > 0) {
			t.Fatalf("%d: found %v", hash, found)
		}
		s.a++
		want[max(hash, 1)]++
	}
	for hash, n := range want {
		if s, ok := tab.peek(hash); !ok || s.a != n {
			t.Fatalf("%d: %v %v, want %d", hash, s, ok, n)
		}
	}
	full := table{most: 1}
	for i := range uint64(10_000) {
		full.find(i + 1)
	}
	if s, found := full.find(20_000); s != nil || found || full.n != 3*firstSlots/4 {
		t.Errorf("a full table has %d entries and takes another: %v", full.n, s)
	}
	if s, found := full.find(1); s == nil || !found {
		t.Error("a full table forgets")
	}
}

// Values to 2,048 are exact; a greater one is never told smaller, and by less than 0.1 % greater.
func TestHistogramError(t *testing.T) {
	for _, v := range []uint64{1, 2, 1000, 2047, 2048, 2049, 4095, 4097, 123_456, 1<<32 - 1, 1 << 40} {
		got := rounded(v)
		if got < v || v <= 2048 && got != v || float64(got-v) > 0.001*float64(v) {
			t.Errorf("%d is told as %d", v, got)
		}
	}
}

// A percentile is the least value that so many are not above; what goes beyond a limit is a sum.
func TestSpread(t *testing.T) {
	var h histogram
	for v := uint64(1); v <= 1000; v++ {
		h.add(v)
	}
	s := h.spread()
	got := []uint64{s.at(0), s.at(0.5), s.at(0.95), s.at(0.99), s.at(0.999), s.at(1)}
	if diff := cmp.Diff([]uint64{1, 500, 950, 990, 999, 1000}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for limit, want := range map[uint64][2]int64{0: {500_500, 1000}, 998: {3, 2}, 999: {1, 1}, 1000: {0, 0}} {
		if excess, n := s.over(limit); int64(excess) != want[0] || n != want[1] {
			t.Errorf("over %d: %d in %d, want %v", limit, excess, n, want)
		}
	}
	h = histogram{}
	h.add(100_001)
	if s = h.spread(); s.at(1) != 100_001 {
		t.Errorf("the maximum is told as %d, want 100001", s.at(1))
	}
}

// Numbers, UUIDs, hashes and tokens become a star; words stay, and so does what they are part of.
func TestGroups(t *testing.T) {
	for path, want := range map[string]string{
		"/":                          "/",
		"":                           "/",
		"*":                          "/*",
		"/users/42":                  "/users/*",
		"/users/42/orders/7/items/1": "/users/*/orders/*",
		"/v1/health":                 "/v1/health",
		"/api//search/":              "/api/search",
		"/files/123e4567-e89b-12d3-a456-426614174000": "/files/*",
		"/static/app.3f2a9c1d.js":                     "/static/*",
		"/static/app.js":                              "/static/app.js",
		"/deadbeef/feed":                              "/deadbeef/feed",
		"/commit/deadbee1":                            "/commit/*",
		"/t/eyJhbGciOiJIUzI1NiIsInR5cCI6":             "/t/*",
		"/report-2024.pdf":                            "/report-2024.pdf",
		"/report-20240131.pdf":                        "/*",
		"/caf%C3%A9/x":                                "/*/x",
		"/a;b/c":                                      "/*/c",
		"/a\"b":                                       "/*",
		"/" + strings.Repeat("word", 13):              "/*",
	} {
		if got := string(appendGroup(nil, path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
