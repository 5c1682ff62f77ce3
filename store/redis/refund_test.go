package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// refundAt gives back n that were charged at a moment.
func (b *lab) refundAt(t *testing.T, h weir.Hit, at int64) {
	t.Helper()
	j := newJob(1)
	b.add(j, opRefund, []weir.Hit{h})
	j.calls[0].at = at
	f := flush{jobs: []*job{j}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if f.together(ctx, b.link.Load().single); j.err != nil {
		t.Fatal(j.err)
	}
}

func (b *lab) take(t *testing.T, h weir.Hit) weir.Status {
	t.Helper()
	return b.takeAll(t, opTake, []weir.Hit{h})[0][0]
}

// refundable are the limits whose charges are given back by number.
func refundable(most int64, w time.Duration) []*weir.Limit { return every(most, w)[:5] }

// TestRefundAtOnce: what is given back at once was never charged.
func TestRefundAtOnce(t *testing.T) {
	b := openLab(t, redistest.Start(t).URL())
	for _, l := range refundable(10, time.Minute) {
		h := hitOn(l, "once", 3)
		b.take(t, h)
		b.refundAt(t, h, b.now)
		if st := b.take(t, hitOn(l, "once", 0)); st != (weir.Status{Limit: l, Allowed: true, Remaining: 10}) {
			t.Errorf("%v: %+v, want an unused counter", l.Algorithm, st)
		}
		b.take(t, hitOn(l, "once", 2))
		b.take(t, h)
		b.refundAt(t, h, b.now)
		if st := b.take(t, hitOn(l, "once", 0)); st.Remaining != 8 {
			t.Errorf("%v: %+v, want 8 left", l.Algorithm, st)
		}
	}
}

// TestRefundMakesNothing: giving back what is not there any more makes no key, and nothing negative.
func TestRefundMakesNothing(t *testing.T) {
	server := redistest.Start(t)
	b := openLab(t, server.URL())
	for _, l := range refundable(10, time.Minute) {
		b.refundAt(t, hitOn(l, "unused", 3), b.now)
		if n := server.Do("EXISTS", keyOf(t, b.Store, hitOn(l, "unused", 3))); n != 0 {
			t.Errorf("%v: a key was made", l.Algorithm)
		}
		b.take(t, hitOn(l, "less", 2))
		b.refundAt(t, hitOn(l, "less", 9), b.now)
		if st := b.take(t, hitOn(l, "less", 0)); st.Remaining != 10 {
			t.Errorf("%v: %+v, want 10 left", l.Algorithm, st)
		}
		at := b.now
		b.take(t, hitOn(l, "old", 4))
		b.now += 49 * 3600 * 1_000_000 // another day, and some windows
		b.take(t, hitOn(l, "old", 2))
		b.refundAt(t, hitOn(l, "old", 4), at)
		if st := b.take(t, hitOn(l, "old", 0)); st.Remaining != 8 {
			t.Errorf("%v: %+v, want nothing of another period to be given back", l.Algorithm, st)
		}
	}
}

// TestRefundKeepsExpiry: giving back neither lengthens nor ends a key's life.
func TestRefundKeepsExpiry(t *testing.T) {
	server := redistest.Start(t)
	b := openLab(t, server.URL())
	for _, l := range refundable(10, time.Minute) {
		h := hitOn(l, "kept", 1)
		b.take(t, h)
		b.take(t, h)
		server.Do("PEXPIRE", keyOf(t, b.Store, h), "12345678")
		b.refundAt(t, h, b.now)
		if n := ttl(t, server, keyOf(t, b.Store, h)); n > 12_345_678 || n < 12_000_000 {
			t.Errorf("%v: expires in %d ms", l.Algorithm, n)
		}
	}
}

// TestRefundIsSafe: whatever others did meanwhile, a counter has no more left after a refund than if
// it had never been charged.
func TestRefundIsSafe(t *testing.T) {
	b := openLab(t, redistest.Start(t).URL())
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 300 {
		for _, l := range refundable(1000, time.Duration(1+rng.IntN(5))*time.Second) {
			charged, spared := hitOn(l, fmt.Sprint("charged", i), 0), hitOn(l, fmt.Sprint("spared", i), 0)
			others := func() {
				b.now += rng.Int64N(700_000)
				charged.N = rng.Int64N(20)
				spared.N = charged.N
				b.takeAll(t, opTake, []weir.Hit{charged}, []weir.Hit{spared})
			}
			others()
			charged.N = 1 + rng.Int64N(50)
			ours := charged
			at := b.now
			b.take(t, ours)
			for range rng.IntN(4) {
				others()
			}
			b.refundAt(t, ours, at)
			charged.N, spared.N = 0, 0
			out := b.takeAll(t, opPeek, []weir.Hit{charged}, []weir.Hit{spared})
			if got, most := out[0][0].Remaining, out[1][0].Remaining; got > most {
				t.Fatalf("%v: %d left after the refund, %d where nothing was charged", l.Algorithm, got, most)
			}
		}
	}
}

// TestLongLog: a sliding log of ten thousand stamps is exact, and is not read whole each time.
func TestLongLog(t *testing.T) {
	server := redistest.Start(t)
	b := openLab(t, server.URL())
	l := &weir.Limit{Algorithm: weir.SlidingLog, Max: 10_000, Window: time.Hour}
	var o oracle
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 4000 {
		b.now += rng.Int64N(3_000_000)
		if i%1000 == 999 {
			b.now += 3_000_000_000
		}
		h := hitOn(l, "long", rng.Int64N(20))
		if got, want := b.take(t, h), o.take(l, 1000*b.now, h.N); got != want {
			t.Fatalf("request %d: %+v, want %+v", i, got, want)
		}
	}
	if n, ok := server.Do("STRLEN", keyOf(t, b.Store, hitOn(l, "long", 0))).(int); !ok || n > 4+2*7*10_020 {
		t.Errorf("%d bytes, want no more than two stamps for one that counts", n)
	}
}
