package memory

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirgate/weir"
)

func TestSizes(t *testing.T) {
	if got := unsafe.Sizeof(entry{}); got != 40 {
		t.Errorf("an entry is %d bytes, want 40", got)
	}
	if got := unsafe.Sizeof(shard{}); got%64 != 0 {
		t.Errorf("a shard is %d bytes, want whole cache lines", got)
	}
}

// check holds t to what its search relies on.
func check(t *testing.T, tab *table) {
	t.Helper()
	n, last := 0, uint64(0)
	for i, e := range tab.slots {
		if e.hash == 0 {
			continue
		}
		n++
		if e.hash <= last {
			t.Fatalf("slot %d: %x after %x", i, e.hash, last)
		}
		last = e.hash
		for j := tab.home(e.hash); j < i; j++ {
			if tab.slots[j].hash == 0 {
				t.Fatalf("slot %d: %x is cut off from its home %d by the empty slot %d", i, e.hash, tab.home(e.hash), j)
			}
		}
	}
	if n != tab.n {
		t.Fatalf("%d entries, counted %d", n, tab.n)
	}
	if tab.len() > 0 && tab.slots[tab.len()-1].hash != 0 {
		t.Fatal("the last slot is taken")
	}
}

// TestTableAgainstMap: a table does what a map does, full or emptied, for hashes that spread and for
// those that crowd at either end.
func TestTableAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	spread := func() uint64 { return max(1, rng.Uint64()) }
	for name, hash := range map[string]func() uint64{
		"spread": spread,
		"few":    func() uint64 { return 1 + rng.Uint64N(300) },
		"low":    func() uint64 { return max(1, spread()>>20) },
		"high":   func() uint64 { return ^(spread() >> 20) },
	} {
		t.Run(name, func(t *testing.T) {
			var tab table
			model := map[uint64]uint64{}
			for round := range 6000 {
				h := hash()
				if grow := round/1000%2 == 0; !grow {
					h = someKey(model, h)
				}
				e := tab.find(h)
				if _, in := model[h]; in != (e != nil) {
					t.Fatalf("%x: found %v, want %v", h, e != nil, in)
				}
				switch {
				case e == nil:
					e = tab.insert(h)
					e.state.Used, model[h] = uint64(round), uint64(round)
				case e.state.Used != model[h]:
					t.Fatalf("%x: holds %d, want %d", h, e.state.Used, model[h])
				default:
					tab.remove(e)
					delete(model, h)
				}
				if round%100 == 0 {
					tab.shrink()
					check(t, &tab)
				}
			}
			for h, want := range model {
				if e := tab.find(h); e == nil || e.state.Used != want {
					t.Fatalf("%x: %+v, want %d", h, e, want)
				}
			}
		})
	}
}

func someKey(m map[uint64]uint64, otherwise uint64) uint64 {
	for h := range m {
		return h
	}
	return otherwise
}

// The hand comes by every entry in one turn, also where it drops some.
func TestHandComesByAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	s := shard{max: 1 << 20}
	want := map[uint64]bool{}
	for i := range 1000 {
		h := max(1, rng.Uint64())
		e := s.table.insert(h)
		e.expires = moment(100 + i%2) // every other one is expired at 101
		want[h] = i%2 == 1
	}
	at := int64(101) << 31
	if got := s.expire(at, s.table.len()); got != 500 {
		t.Errorf("%d dropped, want 500", got)
	}
	check(t, &s.table)
	left := slices.Sorted(maps.Keys(want))
	for _, h := range left {
		if (s.table.find(h) != nil) != want[h] {
			t.Fatalf("%x: kept %v, want %v", h, !want[h], want[h])
		}
	}
}

func TestFillOf(t *testing.T) {
	for _, c := range []struct {
		max, left int64
		want      uint8
	}{{100, 100, 0}, {100, 64, 0}, {100, 63, 1}, {100, 1, 6}, {100, 0, 255}, {1, 1, 0}, {1, 0, 255}, {1 << 62, 1, 62}} {
		if got := fillOf(&weir.Limit{Max: c.max}, c.left); got != c.want {
			t.Errorf("%d of %d left: %d, want %d", c.left, c.max, got, c.want)
		}
	}
}
