package apikey

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Store keeps keys in a database that has the tables of Tables: SQLite and PostgreSQL are asked the same. It
// is safe for concurrent use, by several processes, too. Every change is one transaction.
type Store struct {
	db      *sql.DB
	prepare func(context.Context) error
}

// NewStore returns a store in db. prepare, which may be nil, makes the tables; it is called until it succeeds.
// db stays the caller's.
func NewStore(db *sql.DB, prepare func(context.Context) error) *Store {
	return &Store{db: db, prepare: prepare}
}

// Tables are the statements that make the tables, for SQLite and PostgreSQL alike. Times are Unix seconds, 0
// for none; a row's change is the count of all changes when it was last changed, but for last_used.
func Tables() []string {
	return []string{
		`CREATE TABLE weir_key_changes (one INTEGER PRIMARY KEY CHECK (one = 1), changes BIGINT NOT NULL, pepper TEXT NOT NULL)`,
		`CREATE TABLE weir_keys (
			id TEXT PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, plan TEXT NOT NULL, scopes TEXT NOT NULL,
			created BIGINT NOT NULL, expires BIGINT NOT NULL, revoked BIGINT NOT NULL, last_used BIGINT NOT NULL,
			hash TEXT NOT NULL, old_hash TEXT NOT NULL, old_until BIGINT NOT NULL, change BIGINT NOT NULL)`,
		`CREATE UNIQUE INDEX weir_keys_change ON weir_keys (change)`,
	}
}

// ready makes the tables and the pepper, if they are not there.
func (s *Store) ready(ctx context.Context) error {
	if s.prepare != nil {
		if err := s.prepare(ctx); err != nil {
			return err
		}
	}
	var p pepper
	rand.Read(p[:]) // never fails
	_, err := s.db.ExecContext(ctx, `INSERT INTO weir_key_changes (one, changes, pepper) VALUES (1, 0, $1) ON CONFLICT (one) DO NOTHING`, hex.EncodeToString(p[:]))
	return err
}

// A state is how far a database is.
type state struct {
	changes int64
	pepper  pepper
}

func (s *Store) state(ctx context.Context, from querier) (state, error) {
	var is state
	var text string
	if err := from.QueryRowContext(ctx, `SELECT changes, pepper FROM weir_key_changes WHERE one = 1`).Scan(&is.changes, &text); err != nil {
		return state{}, err
	}
	if n, err := hex.Decode(is.pepper[:], []byte(text[:min(len(text), 2*len(is.pepper))])); err != nil || n != len(is.pepper) {
		return state{}, fmt.Errorf("weir_key_changes: pepper: want %d hex digits", 2*len(is.pepper))
	}
	return is, nil
}

// A querier is a database or a transaction.
type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// change runs do in a transaction that no other change is in, and gives it the count of changes.
func (s *Store) change(ctx context.Context, do func(tx *sql.Tx, change int64, p *pepper) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	// The row is locked until the end: what is committed later has a higher count.
	if _, err := tx.ExecContext(ctx, `UPDATE weir_key_changes SET changes = changes + 1 WHERE one = 1`); err != nil {
		return err
	}
	is, err := s.state(ctx, tx)
	if err != nil {
		return err
	}
	if err := do(tx, is.changes, &is.pepper); err != nil {
		return err
	}
	return tx.Commit()
}

// Create makes a key as spec says and returns it with its secret.
func (s *Store) Create(ctx context.Context, now time.Time, spec Spec) (Key, string, error) {
	if err := spec.check(now); err != nil {
		return Key{}, "", err
	}
	id, secret := newSecret()
	k := Key{ID: id, Name: spec.Name, Owner: spec.Owner, Plan: spec.Plan, Scopes: spec.Scopes, Created: seconds(unix(now)), Expires: seconds(unix(spec.Expires))}
	err := s.change(ctx, func(tx *sql.Tx, change int64, p *pepper) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO weir_keys (id, name, owner, plan, scopes, created, expires, revoked, last_used, hash, old_hash, old_until, change)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8, '', 0, $9)`,
			k.ID, k.Name, k.Owner, k.Plan, strings.Join(k.Scopes, " "), unix(k.Created), unix(k.Expires), p.hex(secret), change)
		return err
	})
	if err != nil {
		return Key{}, "", fmt.Errorf("create key: %w", err)
	}
	return k, secret, nil
}

// Revoke makes a key good for nothing, at once and for ever. Doing it twice changes nothing.
func (s *Store) Revoke(ctx context.Context, now time.Time, id string) (Key, error) {
	err := s.change(ctx, func(tx *sql.Tx, change int64, _ *pepper) error {
		k, err := get(ctx, tx, id)
		if err != nil || !k.Revoked.IsZero() {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE weir_keys SET revoked = $1, hash = '', old_hash = '', old_until = 0, change = $2 WHERE id = $3`, unix(now), change, id)
		return err
	})
	if err != nil {
		return Key{}, fmt.Errorf("revoke key %s: %w", id, err)
	}
	return s.Get(ctx, id)
}

// Rotate gives a key a new secret. The one it has stays good for overlap; one that a rotation before had left
// does not.
func (s *Store) Rotate(ctx context.Context, now time.Time, id string, overlap time.Duration) (Key, string, error) {
	if overlap < 0 || overlap > MostOverlap {
		return Key{}, "", fmt.Errorf("rotate key %s: %w: overlap: want 0 to %s", id, ErrInvalid, MostOverlap)
	}
	secret := renewed(id)
	err := s.change(ctx, func(tx *sql.Tx, change int64, p *pepper) error {
		k, err := get(ctx, tx, id)
		if err != nil {
			return err
		}
		if !k.Live(now) {
			return ErrNotLive
		}
		_, err = tx.ExecContext(ctx, `UPDATE weir_keys SET old_hash = hash, old_until = $1, hash = $2, change = $3 WHERE id = $4`,
			unix(now.Add(overlap)), p.hex(secret), change, id)
		return err
	})
	if err != nil {
		return Key{}, "", fmt.Errorf("rotate key %s: %w", id, err)
	}
	k, err := s.Get(ctx, id)
	return k, secret, err
}

// Get returns a key, revoked or not.
func (s *Store) Get(ctx context.Context, id string) (Key, error) {
	k, err := get(ctx, s.db, id)
	if err != nil {
		return Key{}, fmt.Errorf("key %s: %w", id, err)
	}
	return k, nil
}

const columns = `id, name, owner, plan, scopes, created, expires, revoked, last_used, old_until`

func get(ctx context.Context, from querier, id string) (Key, error) {
	k, err := scan(from.QueryRowContext(ctx, `SELECT `+columns+` FROM weir_keys WHERE id = $1`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, ErrNotFound
	}
	return k, err
}

// scan reads a row of columns, and what follows them into more.
func scan(row func(...any) error, more ...any) (Key, error) {
	var k Key
	var scopes string
	var created, expires, revoked, used, until int64
	err := row(append([]any{&k.ID, &k.Name, &k.Owner, &k.Plan, &scopes, &created, &expires, &revoked, &used, &until}, more...)...)
	k.Scopes = strings.Fields(scopes)
	k.Created, k.Expires, k.Revoked, k.LastUsed, k.OldUntil = seconds(created), seconds(expires), seconds(revoked), seconds(used), seconds(until)
	return k, err
}

// A Query says which keys are listed.
type Query struct {
	Owner, Plan string // empty: any
	After       string // id of the last one of the page before
	Limit       int
}

// List returns keys, revoked ones among them, in the order of their ids.
func (s *Store) List(ctx context.Context, q Query) ([]Key, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+` FROM weir_keys WHERE id > $1 AND ($2 = '' OR owner = $2) AND ($3 = '' OR plan = $3) ORDER BY id LIMIT $4`,
		q.After, q.Owner, q.Plan, q.Limit)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer rows.Close()
	var keys []Key
	for rows.Next() {
		k, err := scan(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// A changed is a key with its hashes, in hex digits; empty: there is none.
type changed struct {
	Key
	hash, oldHash string
	change        int64
}

// changedSince returns the keys that were changed after the count was since, in that order.
func (s *Store) changedSince(ctx context.Context, since int64, limit int) ([]changed, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+`, hash, old_hash, change FROM weir_keys WHERE change > $1 ORDER BY change LIMIT $2`, since, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []changed
	for rows.Next() {
		var c changed
		if c.Key, err = scan(rows.Scan, &c.hash, &c.oldHash, &c.change); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// Used notes when keys were last used, those that were within the minute before excepted.
func (s *Store) used(ctx context.Context, uses []use) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	for _, u := range uses {
		if _, err := tx.ExecContext(ctx, `UPDATE weir_keys SET last_used = $1 WHERE id = $2 AND last_used <= $3`, u.at, u.id, u.at-minute); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// minute is how often, in seconds, the last use of a key is written.
const minute = 60

// A use is that of a key at a Unix second.
type use struct {
	id string
	at int64
}

func (p *pepper) hex(secret string) string {
	s := p.sum(secret)
	return hex.EncodeToString(s[:])
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func seconds(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0).UTC()
}
