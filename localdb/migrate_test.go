package localdb

import (
	"errors"
	"strings"
	"testing"
)

func opened(t *testing.T, dir string) *DB {
	t.Helper()
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// Each step of a part is taken once, whatever other parts do, and further ones follow those that were taken.
func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	first := []string{`CREATE TABLE a (n INTEGER)`, `INSERT INTO a VALUES (1)`}
	for _, steps := range [][]string{first, first, append(first, `INSERT INTO a VALUES (2)`)} {
		db := opened(t, dir)
		if err := errors.Join(db.Migrate("a", steps), db.Migrate("b", []string{`CREATE TABLE IF NOT EXISTS b (n INTEGER)`}), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	db := opened(t, dir)
	defer db.Close()
	var rows, sum int
	if err := db.SQL().QueryRow(`SELECT count(*), sum(n) FROM a`).Scan(&rows, &sum); err != nil || rows != 2 || sum != 3 {
		t.Errorf("%d rows of sum %d, %v; want 2 of 3", rows, sum, err)
	}
	if err := db.Migrate("a", first); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "step 3, known are 2") {
		t.Errorf("fewer steps than were taken: %v, want ErrNewer", err)
	}
}

// A part whose step fails stays as it was: nothing is half-applied.
func TestMigrateFails(t *testing.T) {
	dir := t.TempDir()
	db := opened(t, dir)
	defer db.Close()
	good := []string{`CREATE TABLE a (n INTEGER)`}
	if err := db.Migrate("a", append(good, `nonsense`)); err == nil || !strings.Contains(err.Error(), "tables of a") {
		t.Errorf("%v, want the part's name", err)
	}
	if err := db.Migrate("a", good); err != nil {
		t.Errorf("the first step was left behind: %v", err)
	}
}
