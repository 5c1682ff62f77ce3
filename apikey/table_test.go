package apikey

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"github.com/weirgate/weir/internal/racing"
)

// A table is a map, whatever is put, put again and removed, and however many of its sums begin alike.
func TestTableIsAMap(t *testing.T) {
	racing.Skip(t)
	tab, model := newTable(), map[sum]*entry{}
	r := rand.New(rand.NewPCG(1, 2))
	sumOf := func(n int) (s sum) {
		s = sha256.Sum256([]byte{byte(n), byte(n >> 8)})
		copy(s[:6], make([]byte, 6)) // 65,536 beginnings
		return s
	}
	for range 5_000 {
		s := sumOf(r.IntN(500))
		if r.IntN(3) == 0 {
			tab.remove(&s)
			delete(model, s)
			continue
		}
		e := &entry{sum: s}
		tab.put(e)
		model[s] = e
	}
	for n := range 500 {
		if s := sumOf(n); tab.find(&s) != model[s] && !(tab.find(&s) == nil && model[s] == nil) {
			t.Errorf("%x: %p, want %p", s, tab.find(&s), model[s])
		}
	}
	if got := tab.live(); got != len(model) {
		t.Errorf("%d entries, want %d", got, len(model))
	}
	if slots := len(*tab.slots.Load()); slots > 8*500 {
		t.Errorf("%d slots for 500 entries", slots)
	}
}

// Who looks while entries come and go finds what stays.
func TestTableIsReadWhileItChanges(t *testing.T) {
	tab := newTable()
	stays := &entry{sum: sum{1}}
	tab.put(stays)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 10_000 {
			s := sum{1, byte(i + 1), byte((i + 1) >> 8)}
			tab.put(&entry{sum: s})
			if i%3 > 0 {
				tab.remove(&s)
			}
		}
	}()
	for busy := true; busy; {
		if tab.find(&stays.sum) != stays {
			t.Fatal("it is not found")
		}
		select {
		case <-done:
			busy = false
		default:
		}
	}
}

// Sums differ by a bit.
func TestEquals(t *testing.T) {
	a := sum(sha256.Sum256([]byte("a")))
	for bit := range 8 * len(a) {
		b := a
		b[bit/8] ^= 1 << (bit % 8)
		if a.equals(&b) || !a.equals(&a) {
			t.Errorf("bit %d", bit)
		}
	}
}
