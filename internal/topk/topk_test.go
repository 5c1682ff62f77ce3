package topk

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var seed = maphash.MakeSeed()

func hit(key string, marked bool) Hit {
	h := Hit{Hash: maphash.String(seed, key), Key: []byte(key), Times: 1}
	if marked {
		h.Marked = 1
	}
	return h
}

// exact counts without a bound: the model.
type exact map[string]struct{ hits, marked uint64 }

func (e exact) add(key string, marked bool) {
	c := e[key]
	c.hits++
	if marked {
		c.marked++
	}
	e[key] = c
}

// check holds the sketch to the model: every bound holds, for keys that are named and for those that
// are not.
func check(t *testing.T, s *Sketch, model exact) {
	t.Helper()
	for key, want := range model {
		got := s.Get(maphash.String(seed, key))
		if want.hits < got.Hits || want.hits > got.Hits+got.Error {
			t.Fatalf("%s came %d times; the sketch says %d to %d", key, want.hits, got.Hits, got.Hits+got.Error)
		}
		if got.Marked > want.marked || got.Marked > got.Hits {
			t.Fatalf("%s was marked %d times; the sketch says %d of %d", key, want.marked, got.Marked, got.Hits)
		}
	}
}

// skewed returns keys of which few come often.
func skewed(random *rand.Rand, keys uint64) func() string {
	z := rand.NewZipf(random, 1.1, 1, keys-1)
	return func() string { return fmt.Sprint("key ", z.Uint64()) }
}

// Streams of every shape: fewer keys than places, many more, skewed and flat.
func TestBoundsHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	flat := func(keys int) func() string { return func() string { return fmt.Sprint("key ", random.IntN(keys)) } }
	for _, tc := range []struct {
		name string
		next func() string
	}{
		{"one key", flat(1)}, {"few keys", flat(30)}, {"as many as places", flat(64)}, {"more", flat(200)}, {"many", flat(20_000)},
		{"skewed", skewed(random, 100)}, {"skewed, many", skewed(random, 50_000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, model := New(64), exact{}
			for range 20_000 {
				key, marked := tc.next(), random.IntN(3) == 0
				s.Add(hit(key, marked))
				model.add(key, marked)
			}
			check(t, s, model)
		})
	}
}

// However sketches are merged, the bounds of the sum are bounds, and whatever is added afterwards.
func TestMergedBoundsHold(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		sum, model := New(48), exact{}
		for range 1 + random.IntN(6) {
			next, s := skewed(random, uint64(2+random.IntN(3000))), New(48)
			for range random.IntN(3000) {
				key := next()
				s.Add(hit(key, key[4]&1 == 0))
				model.add(key, key[4]&1 == 0)
			}
			sum.Merge(s)
			key := next()
			sum.Add(hit(key, false))
			model.add(key, false)
		}
		check(t, sum, model)
	}
}

// A key that has more than its part of all hits is always named.
func TestWhoComesOftenIsNamed(t *testing.T) {
	s := New(1024)
	for i := range 200_000 {
		s.Add(hit(fmt.Sprint("crowd ", i), false))
		if i%100 == 0 {
			s.Add(hit("loud", true))
		}
	}
	got := s.Get(maphash.String(seed, "loud"))
	if got.Hits == 0 || got.Hits+got.Error < 2000 || got.Key != "loud" {
		t.Errorf("2000 hits among 200,000 others: %+v", got)
	}
	best := slices.MaxFunc(s.Items(), func(a, b Item) int { return cmp.Compare(a.Hits, b.Hits) })
	if best.Key != "loud" {
		t.Errorf("the first is %+v, want loud", best)
	}
}

// Hits that are counted at once are counted as if one by one.
func TestManyTimesAtOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	once, each, next := New(48), New(48), skewed(random, 3000)
	for range 3000 {
		h := hit(next(), false)
		h.Times = 1 + random.Uint64N(16)
		h.Marked = random.Uint64N(h.Times + 1)
		once.Add(h)
		for i := range h.Times {
			one := Hit{Hash: h.Hash, Key: h.Key, Times: 1}
			if i < h.Marked {
				one.Marked = 1
			}
			each.Add(one)
		}
	}
	if diff := gocmp.Diff(each.Items(), once.Items()); diff != "" {
		t.Errorf("-one by one +at once:\n%s", diff)
	}
}

func TestFewKeysAreExact(t *testing.T) {
	s := New(ways)
	for i := range ways {
		for range i + 1 {
			s.Add(hit(fmt.Sprint(i), i%2 == 0))
		}
	}
	var want []Item
	for i := range ways {
		item := Item{Hash: maphash.String(seed, fmt.Sprint(i)), Key: fmt.Sprint(i), Hits: uint64(i + 1)}
		if i%2 == 0 {
			item.Marked = item.Hits
		}
		want = append(want, item)
	}
	if diff := gocmp.Diff(want, s.Items()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.Add(hit("one more", false)) // now somebody is forgotten, and what he had is the error
	if got := s.Get(maphash.String(seed, "one more")); got.Hits != 1 || got.Error != 1 {
		t.Errorf("%+v, want 1 hit and an error of 1", got)
	}
	if got := s.Get(maphash.String(seed, "0")); got.Hits != 0 || got.Error != 1 {
		t.Errorf("%+v, want nothing but the bound 1", got)
	}
	s.Clear()
	if len(s.Items()) > 0 || s.Get(0) != (Item{}) {
		t.Error("it remembers after Clear")
	}
}

// Keys longer than what is kept are told apart all the same.
func TestLongKeys(t *testing.T) {
	s, long := New(ways), strings.Repeat("x", KeyBytes)
	s.Add(hit(long+"a", false))
	s.Add(hit(long+"b", false))
	items := s.Items()
	if len(items) != 2 || items[0].Key != long || items[1].Key != long {
		t.Errorf("%+v", items)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	s, n := New(1024), uint64(0)
	var key [8]byte
	if got := testing.AllocsPerRun(1000, func() {
		n++
		binary.LittleEndian.PutUint64(key[:], n)
		s.Add(Hit{Hash: maphash.Bytes(seed, key[:]), Key: key[:], Times: 1})
	}); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, keys := range []uint64{1, 500, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			s, n := New(1024), uint64(0)
			var key [18]byte
			for b.Loop() {
				n = n*6364136223846793005 + 1442695040888963407
				binary.LittleEndian.PutUint64(key[:], (n>>33)%keys)
				s.Add(Hit{Hash: maphash.Bytes(seed, key[:]), Key: key[:], Times: 1})
			}
		})
	}
}
