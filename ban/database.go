package ban

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// A Database is the embedded one, as package localdb has it.
type Database interface {
	SQL() *sql.DB
	Migrate(part string, steps []string) error
}

// tables are the steps to the table of bans.
var tables = []string{`CREATE TABLE bans (subject TEXT PRIMARY KEY, ban TEXT NOT NULL) WITHOUT ROWID, STRICT`}

// A Kept is a register in the embedded database, of which this process is the only reader.
type Kept struct {
	open func(create bool) (Database, error)
	mu   sync.Mutex
	sql  *sql.DB // nil: it was not needed yet
}

// KeepIn returns a register in the database that open opens. Until the first ban there may be none: then open
// returns nil unless it is to create it.
func KeepIn(open func(create bool) (Database, error)) *Kept { return &Kept{open: open} }

// database returns the open database, or nil if there is none and it is not to be created.
func (k *Kept) database(create bool) (*sql.DB, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sql != nil {
		return k.sql, nil
	}
	db, err := k.open(create)
	if err != nil || db == nil {
		return nil, err
	}
	if err := db.Migrate("bans", tables); err != nil {
		return nil, err
	}
	k.sql = db.SQL()
	return k.sql, nil
}

// Since implements Register. There is one version: what was put later came from this process.
func (k *Kept) Since(ctx context.Context, version int64) (texts map[string]string, present int64, whole bool, err error) {
	const only = 1
	if version == only {
		return nil, only, false, nil
	}
	db, err := k.database(false)
	if err != nil || db == nil {
		return nil, only, true, err
	}
	rows, err := db.QueryContext(ctx, `SELECT subject, ban FROM bans`)
	if err != nil {
		return nil, 0, false, fmt.Errorf("bans: %w", err)
	}
	defer rows.Close()
	texts = map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, 0, false, fmt.Errorf("bans: %w", err)
		}
		texts[name] = text
	}
	return texts, only, true, rows.Err()
}

// Put implements Register. What it returned for is on the disk.
func (k *Kept) Put(ctx context.Context, name, text string) error {
	return k.exec(ctx, `INSERT INTO bans VALUES (?, ?) ON CONFLICT (subject) DO UPDATE SET ban = excluded.ban`, name, text)
}

// Remove implements Register.
func (k *Kept) Remove(ctx context.Context, name string) error {
	return k.exec(ctx, `DELETE FROM bans WHERE subject = ?`, name)
}

// Forget implements Register.
func (k *Kept) Forget(ctx context.Context, _ int64, names []string) error {
	for _, name := range names {
		if err := k.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kept) exec(ctx context.Context, statement string, values ...any) error {
	db, err := k.database(true)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, statement, values...); err != nil {
		return fmt.Errorf("bans: %w", err)
	}
	return nil
}
