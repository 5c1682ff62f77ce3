package localdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/localdb"
)

// in returns a register in a database in dir that is opened when it is needed, and what closes it.
func in(t *testing.T, dir string) (*ban.Kept, func()) {
	var db *localdb.DB
	kept := ban.KeepIn(func(create bool) (ban.Database, error) {
		if !create && !localdb.Exists(dir) {
			return nil, nil
		}
		var err error
		if db, err = localdb.Open(dir); err != nil {
			return nil, err
		}
		return db, nil
	})
	return kept, func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func add(t *testing.T, b *ban.Bans, text string, made weir.Ban) {
	t.Helper()
	s, err := ban.ParseSubject(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(context.Background(), s, made); err != nil {
		t.Fatal(err)
	}
}

// Without a ban there is no database; a ban is in it for the next process, and one that was lifted is not.
func TestTheDatabaseKeepsBans(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	kept, closes := in(t, dir)
	b := ban.New(ban.Options{Register: kept})
	if err := b.Sync(ctx); err != nil || localdb.Exists(dir) {
		t.Errorf("without a ban: %v, there is a database: %v", err, localdb.Exists(dir))
	}
	add(t, b, "203.0.113.7", weir.Ban{Until: time.Now().Add(time.Hour), Reason: "a \"drill\"", Author: "admin"})
	add(t, b, "key:a", weir.Ban{})
	add(t, b, "key:b", weir.Ban{})
	if _, err := b.Remove(ctx, ban.Subject{Key: "b"}); err != nil {
		t.Error(err)
	}
	want, _ := b.List(10)
	closes()

	kept, closes = in(t, dir)
	defer closes()
	b = ban.New(ban.Options{Register: kept})
	if err := b.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	got, _ := b.List(10)
	if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" || len(got) != 2 {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := kept.Forget(ctx, 1, []string{"203.0.113.7/32", "key:none"}); err != nil {
		t.Error(err)
	}
	if texts, _, whole, err := kept.Since(ctx, 0); err != nil || len(texts) != 1 || texts["key:a"] == "" || !whole {
		t.Errorf("kept: %v, %v, %v", texts, whole, err)
	}
}
