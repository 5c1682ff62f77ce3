package apikey

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A key is shown as it was made; its secret is nowhere in the database.
func TestCreate(t *testing.T) {
	h := build(t, Options{})
	spec := Spec{Name: "web shop", Owner: "ACME", Plan: "free", Scopes: []string{"read", "orders:write"}, Expires: noon.Add(time.Hour)}
	made, secret := h.create(spec)
	want := Key{ID: made.ID, Name: "web shop", Owner: "ACME", Plan: "free", Scopes: []string{"read", "orders:write"}, Created: noon, Expires: noon.Add(time.Hour)}
	got, err := h.Get(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Key{want, want}, []Key{made, got}); diff != "" {
		t.Errorf("made and shown (-want +got):\n%s", diff)
	}
	var path string
	if err := h.db.QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(path); err != nil || strings.Contains(string(file), secret) || strings.Contains(string(file), secret[18:]) {
		t.Errorf("the secret is in the database (%v)", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	h := build(t, Options{})
	long := strings.Repeat("x", mostText+1)
	for what, spec := range map[string]Spec{
		"no name": {}, "long name": {Name: long}, "control byte": {Name: "a\nb"}, "not UTF-8": {Name: "a\xff"},
		"long owner": {Name: "a", Owner: long}, "long plan": {Name: "a", Plan: long},
		"expired": {Name: "a", Expires: noon}, "empty scope": {Name: "a", Scopes: []string{""}}, "scope of two": {Name: "a", Scopes: []string{"read write"}},
		"quoted scope": {Name: "a", Scopes: []string{`"read"`}}, "long scope": {Name: "a", Scopes: []string{long}},
		"many scopes": {Name: "a", Scopes: slices.Repeat([]string{"x"}, mostScopes+1)},
	} {
		if _, _, err := h.Create(t.Context(), spec); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if keys, err := h.List(t.Context(), Query{Limit: 10}); err != nil || len(keys) > 0 {
		t.Errorf("%v is there (%v), want nothing", keys, err)
	}
}

func TestRevoke(t *testing.T) {
	h := build(t, Options{})
	k, _ := h.create(Spec{Name: "a"})
	h.now = noon.Add(time.Hour)
	got, err := h.Revoke(t.Context(), k.ID)
	if err != nil || !got.Revoked.Equal(h.now) || got.Live(h.now) {
		t.Errorf("%+v, %v, want it revoked now", got, err)
	}
	h.now = noon.Add(2 * time.Hour)
	if again, err := h.Revoke(t.Context(), k.ID); err != nil || !again.Revoked.Equal(got.Revoked) {
		t.Errorf("again: %+v, %v, want nothing changed", again, err)
	}
	if _, _, err := h.Rotate(t.Context(), k.ID, 0); !errors.Is(err, ErrNotLive) {
		t.Errorf("rotating it: %v, want ErrNotLive", err)
	}
	for _, err := range []error{second(h.Revoke(t.Context(), "nobody")), second(h.Get(t.Context(), "nobody")), third(h.Rotate(t.Context(), "nobody", 0))} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("nobody's key: %v, want ErrNotFound", err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }

func TestList(t *testing.T) {
	h := build(t, Options{})
	var ids []string
	for i := range 5 {
		k, _ := h.create(Spec{Name: fmt.Sprint(i), Owner: []string{"even", "odd"}[i%2], Plan: "free"})
		ids = append(ids, k.ID)
	}
	slices.Sort(ids)
	list := func(q Query) (got []string) {
		keys, err := h.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			got = append(got, k.ID)
		}
		return got
	}
	if diff := cmp.Diff(ids, list(Query{Limit: 9})); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids[3:], list(Query{After: ids[2], Limit: 9})); diff != "" {
		t.Errorf("the second page (-want +got):\n%s", diff)
	}
	if got := list(Query{Owner: "even", Plan: "free", Limit: 9}); len(got) != 3 {
		t.Errorf("three of one owner: %v", got)
	}
	if got := list(Query{Plan: "gold", Limit: 9}); got != nil {
		t.Errorf("of a plan that nobody has: %v", got)
	}
}

// Two processes change keys of one database at once: every change has a count of its own, and nobody misses one.
func TestChangesAreCounted(t *testing.T) {
	h := build(t, Options{})
	other := open(t, NewStore(h.db, nil), Options{Now: func() time.Time { return noon }})
	errs := make(chan error, 20)
	for i := range 20 {
		keys := []*Keys{h.Keys, other}[i%2]
		go func() { _, _, err := keys.Create(context.Background(), Spec{Name: "a"}); errs <- err }()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	list, err := h.changedSince(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var counts, want []int64
	for i, c := range list {
		counts, want = append(counts, c.change), append(want, int64(i+1))
	}
	if diff := cmp.Diff(want, counts, cmpopts.EquateEmpty()); diff != "" || len(list) != 20 {
		t.Errorf("counts of %d changes (-want +got):\n%s", len(list), diff)
	}
}
