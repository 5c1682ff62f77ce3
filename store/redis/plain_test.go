package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/store/memory"
)

// shapes are what requests ask: one to three limits, of algorithms whose counters are strings.
func shapes(rng *rand.Rand) (all [][]*weir.Limit) {
	for range 1 + rng.IntN(4) {
		var limits []*weir.Limit
		for range 1 + rng.IntN(3) {
			algorithms := []weir.Algorithm{weir.SlidingWindow, weir.FixedWindow, weir.TokenBucket, weir.Quota}
			l := newTrial(rng, algorithms[rng.IntN(len(algorithms))]).limit
			l.Max, l.Burst, l.Mode = rng.Int64N(6), 1+rng.Int64N(6), weir.Mode(rng.IntN(2))
			limits = append(limits, &l)
		}
		all = append(all, limits)
	}
	return all
}

// TestOraclePlain: requests of many clients under various rules, each on counters of its own, are judged
// as the store in memory does, one by one: a charge, a refusal that is looked at again, a shadow.
func TestOraclePlain(t *testing.T) {
	b := openLab(t, redistest.Start(t).URL())
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 40 {
		m := memory.New(memory.Options{})
		all := shapes(rng)
		for step := range 20 {
			b.now += rng.Int64N(3_000_000)
			checkPlain(t, b, m, all, rng, fmt.Sprint("plain", i), step)
		}
		m.Close()
	}
}

func checkPlain(t *testing.T, b *lab, m *memory.Store, all [][]*weir.Limit, rng *rand.Rand, name string, step int) {
	t.Helper()
	o, ask := opTake, m.Take
	if rng.IntN(5) == 0 {
		o, ask = opPeek, m.Peek
	}
	var f flush
	want := map[*job][]weir.Status{}
	for client := range 1 + rng.IntN(7) {
		shape := rng.IntN(len(all))
		var hits []weir.Hit
		for k, l := range all[shape] {
			hits = append(hits, weir.Hit{Limit: l, Key: fmt.Appendf(nil, "{c}%s/%d/%d/%d", name, client, shape, k), TagLen: 3, N: 1})
		}
		j := newJob(len(hits))
		b.add(j, o, hits)
		f.jobs = append(f.jobs, j)
		want[j] = make([]weir.Status, len(hits))
		if err := ask(context.Background(), b.time(), hits, want[j]); err != nil {
			t.Fatal(err)
		}
	}
	f.together(t.Context(), b.link.Load().single)
	for i, j := range f.jobs {
		if j.err != nil || j.kind() != plain {
			t.Fatalf("%s, step %d: kind %d, %v", name, step, j.kind(), j.err)
		}
		for k, w := range want[j] {
			var got weir.Status
			j.status(k, &got)
			if d := cmp.Diff(inMicroseconds(w), got, sameLimit); d != "" {
				t.Fatalf("%s, step %d, request %d, hit %d, %+v (-memory +script):\n%s", name, step, i, k, w.Limit, d)
			}
		}
	}
}

// TestExpiryOfSeveral: of limits that take turns in a batch each counter lives as long as its own matters.
func TestExpiryOfSeveral(t *testing.T) {
	server := redistest.Start(t)
	b := openLab(t, server.URL())
	var limits []*weir.Limit
	for _, minutes := range []time.Duration{1, 2, 5} {
		limits = append(limits, &weir.Limit{Algorithm: weir.FixedWindow, Max: 9, Window: minutes * time.Minute})
	}
	requests := make([][]weir.Hit, 3)
	for client := range requests {
		for k, l := range limits {
			requests[client] = append(requests[client], hitOn(l, fmt.Sprint("turns", client, k), 1))
		}
	}
	const spare = 60_000 // of a state whose time is not the server's
	for i, out := range b.takeAll(t, opTake, requests...) {
		for k, st := range out {
			want := int(st.ResetAfter.Milliseconds()) + spare
			if got := ttl(t, server, keyOf(t, b.Store, requests[i][k])); got > want+1 || got < want-1000 {
				t.Errorf("request %d, limit %d: expires in %d ms, want %d", i, k, got, want)
			}
		}
	}
}

// TestBatchKinds: what goes together decides how the script is told of it.
func TestBatchKinds(t *testing.T) {
	s := &Store{prefix: "weir", leases: leases{term: leaseTerm}}
	one, two := &weir.Limit{Max: 5, Window: 60e9}, &weir.Limit{Algorithm: weir.TokenBucket, Max: 7, Burst: 3, Window: 1e9}
	held := &weir.Limit{Algorithm: weir.Concurrency, Max: 2}
	a, b, c := hitOn(one, "a", 1), hitOn(two, "a", 1), hitOn(one, "c", 1)
	for _, test := range []struct {
		name     string
		requests [][]weir.Hit
		want     []any // the arguments after the keys
	}{
		{"alone", [][]weir.Hit{{a}}, []any{"", 4, 1, 5, 60_000_000}},
		{"two clients", [][]weir.Hit{{a}, {c}}, []any{"", 4, 1, 5, 60_000_000}},
		{"two limits", [][]weir.Hit{{a, b}}, []any{"", 8, 1, 5, 60_000_000, 7, 7, 1_000_000, 3}},
		{"two rules", [][]weir.Hit{{a}, {b}, {c}}, []any{"", 4, 1, 5, 60_000_000, 2, 4, 7, 7, 1_000_000, 3}},
		{"one counter twice", [][]weir.Hit{{a}, {a}}, []any{"", 5, 1, 5, 60_000_000, 1<<17 + 3, 1<<17 + 3}},
		{"a cost", [][]weir.Hit{{hitOn(one, "a", 9)}}, []any{"", 5, 1, 5, 60_000_000, -(1<<17 + 3), 9}},
		{"in flight", [][]weir.Hit{{hitOn(held, "a", 0)}}, []any{"", 6, 9, 2, 15_000_000, -(1<<17 + 3), 0, ""}},
	} {
		var jobs []*job
		for _, hits := range test.requests {
			j := newJob(len(hits))
			s.add(j, opTake, hits)
			for i := range j.calls {
				j.calls[i].lease = ""
			}
			jobs = append(jobs, j)
		}
		var built batch
		built.build(s, jobs, "")
		keys := int(*built.args[firstKey-1].(*int64))
		var got []any
		for _, arg := range built.args[firstKey+keys:] {
			switch v := arg.(type) {
			case *int64:
				got = append(got, int(*v))
			case *string:
				got = append(got, *v)
			default:
				got = append(got, v)
			}
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}
