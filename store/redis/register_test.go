package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
)

// A news is an answer of Since.
type news struct {
	Texts map[string]string
	Whole bool
}

// since returns what changed after a version, and the present one.
func since(t *testing.T, r *Register, version int64) (news, int64) {
	t.Helper()
	texts, present, whole, err := r.Since(context.Background(), version)
	if err != nil {
		t.Fatal(err)
	}
	return news{texts, whole}, present
}

func put(t *testing.T, r *Register, name, text string) {
	t.Helper()
	do := func() error { return r.Put(context.Background(), name, text) }
	if text == "" {
		do = func() error { return r.Remove(context.Background(), name) }
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
}

// register returns one of a server that is waited for.
func register(t *testing.T, url string) *Register {
	t.Helper()
	s, err := New(Options{URL: url, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Register("list")
}

// Who knows a version is told what changed, once; who knows none, or one that is too old, everything.
func TestRegister(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r, other := register(t, server.URL()), register(t, server.URL())
	got, none := since(t, r, 0)
	if diff := cmp.Diff(news{map[string]string{}, true}, got); diff != "" {
		t.Errorf("an empty one (-want +got):\n%s", diff)
	}
	if got, again := since(t, r, none); got.Whole || got.Texts != nil || again != none {
		t.Errorf("nothing changed: %+v", got)
	}
	put(t, r, "a", "1")
	put(t, r, "b", "2")
	got, first := since(t, other, none)
	if diff := cmp.Diff(news{map[string]string{"a": "1", "b": "2"}, true}, got); diff != "" {
		t.Errorf("the first time (-want +got):\n%s", diff)
	}
	put(t, r, "a", "3")
	put(t, r, "b", "")
	put(t, r, "c", "4")
	put(t, r, "c", "5")
	got, second := since(t, other, first)
	if diff := cmp.Diff(news{map[string]string{"a": "3", "b": "", "c": "5"}, false}, got); diff != "" || second != first+4 {
		t.Errorf("news, version %d after %d (-want +got):\n%s", second, first, diff)
	}
	for i := range mostChanges {
		put(t, r, fmt.Sprint("n", i%7), fmt.Sprint(i))
	}
	if got, _ := since(t, other, second); got.Whole || len(got.Texts) != 7 {
		t.Errorf("as many changes as are kept: %+v", got)
	}
	if got, _ := since(t, other, second-1); !got.Whole || len(got.Texts) != 9 {
		t.Errorf("one more: %+v", got)
	}
	if n := server.Do("LLEN", "weir:{list}:changes"); n != mostChanges {
		t.Errorf("%v changes are kept, want %d", n, mostChanges)
	}
}

// A server that lost its data, and what was put since, are both seen, however many changes were known.
func TestRegisterLosesItsData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := register(t, server.URL())
	put(t, r, "a", "1")
	_, before := since(t, r, 0)
	server.Do("FLUSHALL")
	if got, _ := since(t, r, before); !got.Whole || len(got.Texts) != 0 {
		t.Errorf("after the loss: %+v", got)
	}
	put(t, r, "b", "2")
	put(t, r, "c", "3")
	if got, _ := since(t, r, before); !got.Whole || len(got.Texts) != 2 {
		t.Errorf("afterwards: %+v", got)
	}
}

// In a Cluster, of which one node is named, the register is found wherever it is, and when it moves.
func TestRegisterInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Nodes {
		r := register(t, node.URL())
		put(t, r, "a", node.Addr)
		if got, _ := since(t, r, 0); got.Texts["a"] != node.Addr {
			t.Errorf("by %s: %+v", node.Addr, got)
		}
	}
	r := register(t, cluster.URL())
	_, version := since(t, r, 0)
	number := slot("weir:{list}:texts")
	from := cluster.Holder(number)
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	cluster.BeginMove(number, from, to)
	cluster.EndMove(number, from, to)
	put(t, r, "b", "2")
	if got, _ := since(t, r, version); got.Texts["b"] != "2" {
		t.Errorf("after the move: %+v", got)
	}
	if err := r.Forget(context.Background(), version+1, []string{"a", "b"}); err != nil {
		t.Error(err)
	}
	if got, _ := since(t, r, 0); len(got.Texts) != 0 {
		t.Errorf("forgotten: %+v", got)
	}
}

// What was put after the version that was known is not forgotten.
func TestRegisterForgets(t *testing.T) {
	t.Parallel()
	r := register(t, redistest.Start(t).URL())
	put(t, r, "a", "1")
	_, version := since(t, r, 0)
	put(t, r, "a", "2")
	for _, step := range []struct {
		version int64
		left    int
	}{{version, 1}, {version + 1, 0}} {
		if err := r.Forget(context.Background(), step.version, []string{"a"}); err != nil {
			t.Error(err)
		}
		if got, present := since(t, r, 0); len(got.Texts) != step.left || present != version+1 {
			t.Errorf("as of %d: %+v at %d", step.version-version, got, present-version)
		}
	}
}

// A server that is away is an error that says who, within the time.
func TestRegisterAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := register(t, server.URL())
	put(t, r, "a", "1")
	server.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, _, _, err := r.Since(ctx, 0); err == nil || !strings.HasPrefix(err.Error(), "redis "+server.Addr+": read weir:{list}:texts: ") {
		t.Errorf("%v", err)
	}
	server.Thaw()
	if got, _ := since(t, r, 0); got.Texts["a"] != "1" {
		t.Errorf("afterwards %+v", got)
	}
}
