package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// CNT-09: hits whose counters lie in several slots are no error, and are charged all or none.
func TestSpreadAllOrNothing(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	s := open(t, cluster.URL())
	for _, narrow := range every(1, hour) {
		for _, wide := range every(9, hour) {
			name := narrow.Algorithm.String() + "/" + wide.Algorithm.String()
			request := func(lease uint64) []weir.Hit {
				hits := []weir.Hit{hitOn(wide, "global"+name, 1), hitOn(narrow, "client"+name, 1), hitOn(wide, "other"+name, 1)}
				for i := range hits {
					hits[i].Lease = lease
				}
				return hits
			}
			for i := range uint64(4) {
				out := mustTake(t, s, request(i)...)
				if out[1].Allowed != (i == 0) || !out[0].Allowed || out[0].Remaining != 8 || out[2].Remaining != 8 {
					t.Errorf("%s: request %d: %+v", name, i, out)
				}
			}
			if out := mustTake(t, s, hitOn(wide, "global"+name, 0)); out[0].Remaining != 8 {
				t.Errorf("%s: %+v, want one to be charged", name, out[0])
			}
		}
	}
}

// What the widest limit refuses is given back to those that were charged before it.
func TestSpreadIsGivenBack(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	s := open(t, cluster.URL())
	global := &weir.Limit{Max: 100, Window: time.Hour}
	mustTake(t, s, hitOn(global, "global", 100))
	for _, l := range every(10, hour) {
		name := l.Algorithm.String()
		mustTake(t, s, hitOn(l, name, 2))
		for i := range uint64(20) {
			mine := hitOn(l, name, 3)
			mine.Lease = 10 + i
			s.refused.generation.Add(1) // ask each time
			out := mustTake(t, s, mine, hitOn(global, "global", 1))
			if !out[0].Allowed || out[0].Remaining != 8 || out[1].Allowed {
				t.Fatalf("%s: request %d: %+v", name, i, out)
			}
		}
		if out := mustTake(t, s, hitOn(l, name, 0)); out[0].Remaining != 8 {
			t.Errorf("%s: %+v, want two to be charged", name, out[0])
		}
	}
}

// Never one too many, from several replicas, where one limit is everybody's.
func TestSpreadInParallel(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	var replicas []*Store
	for range 4 {
		replicas = append(replicas, open(t, cluster.URL()))
	}
	global := &weir.Limit{Max: 100, Window: time.Hour}
	mine := &weir.Limit{Algorithm: weir.FixedWindow, Max: 30, Window: hour}
	n, failed := passes(1000, func(i int) ([]weir.Status, error) {
		out, err := take(replicas[i%4], hitOn(mine, "client"+strconv.Itoa(i%7), 1), hitOn(global, "all", 1))
		if err == nil && !out[1].Allowed {
			out[0].Allowed = false
		}
		return out, err
	})
	if n > 100 || n < 90 || failed != nil {
		t.Errorf("%d passed, want 100 or a few less; %v", n, failed)
	}
	s, used := replicas[0], int64(0)
	for i := range 7 {
		used += 30 - mustTake(t, s, hitOn(mine, "client"+strconv.Itoa(i), 0))[0].Remaining
	}
	if used != int64(n) {
		t.Errorf("clients were charged %d for %d that passed", used, n)
	}
	if left := mustTake(t, s, hitOn(global, "all", 0))[0].Remaining; 100-left != int64(n) {
		t.Errorf("all were charged %d for %d that passed", 100-left, n)
	}
}

// A slot that moves under traffic fails no request and loses no count.
func TestSlotMoves(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	s := open(t, cluster.URL())
	l := &weir.Limit{Max: 100, Window: time.Hour}
	h := hitOn(l, "moving", 1)
	at := slot(keyOf(t, s, h))
	fresh := hitOn(&weir.Limit{Algorithm: weir.FixedWindow, Max: 100, Window: hour}, "moving", 1)
	mustTake(t, s, h)
	from := cluster.Holder(at)
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	cluster.BeginMove(at, from, to)
	if st := mustTake(t, s, h)[0]; st.Remaining != 98 {
		t.Errorf("what has not moved: %+v", st)
	}
	if st := mustTake(t, s, fresh)[0]; st.Remaining != 99 {
		t.Errorf("what is new: %+v", st)
	}
	cluster.EndMove(at, from, to)
	for want := int64(97); want > 90; want-- {
		if st := mustTake(t, s, h)[0]; st.Remaining != want {
			t.Errorf("after the move: %+v, want %d left", st, want)
		}
	}
	if st := mustTake(t, s, fresh)[0]; st.Remaining != 98 {
		t.Errorf("what was new: %+v", st)
	}
}

// together executes jobs as one batch of the node that is asked for the first's counter.
func together(t *testing.T, s *Store, requests ...[]weir.Hit) []*job {
	t.Helper()
	var f flush
	for _, hits := range requests {
		j := newJob(len(hits))
		s.add(j, opTake, hits)
		if !j.oneSlot() {
			t.Fatal("the counters lie in several slots")
		}
		f.jobs = append(f.jobs, j)
	}
	jobs := slices.Clone(f.jobs) // bySlot puts them in its own order
	l, err := s.link.Load().line(t.Context(), jobs[0].calls[0].key)
	if err != nil {
		t.Fatal(err)
	}
	f.bySlot(t.Context(), l)
	return jobs
}

// What one client is asked for at once goes to a Cluster in one command, and each has its own answer.
func TestSlotsGoTogether(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	s := open(t, cluster.URL())
	l := &weir.Limit{Max: 100, Window: time.Hour}
	mine := hitOn(l, "mine", 1)
	mustTake(t, s, mine)
	node := cluster.Holder(slot(keyOf(t, s, mine)))
	other := mine
	for i := 0; string(other.Key) == string(mine.Key); i++ {
		if h := hitOn(l, strconv.Itoa(i), 1); cluster.Holder(slot(keyOf(t, s, h))) == node {
			other = h
		}
	}
	before := node.Calls("evalsha")
	jobs := together(t, s, []weir.Hit{mine}, []weir.Hit{other}, []weir.Hit{mine}, []weir.Hit{other}, []weir.Hit{mine})
	if n := node.Calls("evalsha") - before; n != 2 {
		t.Errorf("%d commands for two slots, want 2", n)
	}
	for i, want := range []int64{98, 99, 97, 98, 96} {
		var st weir.Status
		if jobs[i].status(0, &st); jobs[i].err != nil || !st.Allowed || st.Remaining != want {
			t.Errorf("request %d: %+v %v, want %d left", i, st, jobs[i].err, want)
		}
	}
}

// Requests that go together do not fail each other where some of a slot's counters have moved: what is
// still here is answered, and what is not is told where to ask.
func TestSlotsGoTogetherWhileTheyMove(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	s := open(t, cluster.URL())
	here := hitOn(&weir.Limit{Max: 100, Window: time.Hour}, "moving", 1)
	fresh := hitOn(&weir.Limit{Algorithm: weir.FixedWindow, Max: 100, Window: hour}, "moving", 1)
	mustTake(t, s, here)
	at := slot(keyOf(t, s, here))
	from, to := cluster.Holder(at), cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	cluster.BeginMove(at, from, to)
	jobs := together(t, s, []weir.Hit{here}, []weir.Hit{fresh})
	var st weir.Status
	if jobs[0].err != nil {
		t.Fatal(jobs[0].err)
	}
	if jobs[0].status(0, &st); st.Remaining != 98 {
		t.Errorf("what has not moved: %+v", st)
	}
	if _, isAsk := goredis.IsAskError(jobs[1].err); !isAsk {
		t.Errorf("what is new: %v, want to be told to ask", jobs[1].err)
	}
}

// A node that is away fails what it holds, and nothing else.
func TestNodeAway(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	s := openWith(t, Options{URL: cluster.URL(), Timeout: patience})
	l := &weir.Limit{Max: 1000, Window: time.Hour}
	byNode := map[*redistest.Server]weir.Hit{}
	for i := 0; len(byNode) < 3; i++ {
		h := hitOn(l, strconv.Itoa(i), 1)
		mustTake(t, s, h)
		byNode[cluster.Holder(slot(keyOf(t, s, h)))] = h
	}
	gone := cluster.Nodes[2]
	gone.Kill()
	for node, h := range byNode {
		if _, err := take(s, h); (err != nil) != (node == gone) {
			t.Errorf("%s: %v", node.Addr, err)
		}
	}
	narrow := byNode[cluster.Nodes[0]]
	few := &weir.Limit{Algorithm: weir.FixedWindow, Max: 5, Window: hour}
	narrow.Limit, narrow.Key = few, append(narrow.Key, "few"...)
	for range 8 {
		if _, err := take(s, narrow, byNode[gone]); err == nil {
			t.Error("a request passes without the node of one of its limits")
		}
	}
	eventually(t, "given back", func() error {
		out := make([]weir.Status, 1)
		look := narrow
		look.N = 0
		if err := s.Peek(context.Background(), time.Now(), []weir.Hit{look}, out); err != nil || out[0].Remaining != 5 {
			return fmt.Errorf("%+v %w", out[0], err)
		}
		return nil
	})
}
