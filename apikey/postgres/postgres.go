// Package postgres keeps API keys in PostgreSQL, for several replicas.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirgate/weir/apikey"
)

const (
	// connectTimeout bounds a connection's beginning, where the URL does not.
	connectTimeout = 2 * time.Second
	// mostConnections of a process: one that follows, one that writes uses, and operators.
	mostConnections = 4
	// lifetime is when a connection is made anew, so that one to a server that is none any longer ends.
	lifetime = 10 * time.Minute
)

// Open returns the database at a URL, postgres://USER:PASSWORD@HOST:PORT/NAME with the parameters of libpq, and
// the store of keys in it. No connection is made yet. The caller closes the database, after what uses the store.
func Open(address string) (*sql.DB, *apikey.Store, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, nil, errors.New("postgres_url: cannot be read: want postgres://USER:PASSWORD@HOST:5432/NAME") // the cause may hold the password
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	// Without statements that a connection remembers, a pooler before the server does no harm.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(mostConnections)
	db.SetConnMaxLifetime(lifetime)
	return db, apikey.NewStore(db, func(ctx context.Context) error { return Migrate(ctx, db) }), nil
}

// migrations make the tables, each from what the ones before it left. One that was released is never changed.
func migrations() [][]string { return [][]string{apikey.Tables()} }

// lock is what replicas that start at once lock: any number that nobody else locks.
const lock = 0x77656972 // weir

// Migrate makes the tables, or brings older ones up to date. Any number of replicas may do it at once. Tables of
// a later version are left alone: [apikey.ErrNewer].
func Migrate(ctx context.Context, db *sql.DB) error {
	done, err := version(ctx, db)
	if err != nil || done == len(migrations()) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
		return err
	}
	if done, err = version(ctx, tx); err != nil {
		return err
	}
	for _, statements := range migrations()[done:] {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("migration %d: %w", done+1, err)
			}
		}
	}
	if err := setVersion(ctx, tx, len(migrations())); err != nil {
		return err
	}
	return tx.Commit()
}

// version returns how many migrations were made. It needs no right but to read.
func version(ctx context.Context, from interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (int, error) {
	var isThere bool
	// to_regclass would answer from a cache that the lock does not renew.
	if err := from.QueryRowContext(ctx, `SELECT count(*) > 0 FROM pg_class WHERE relname = 'weir_schema' AND pg_table_is_visible(oid)`).Scan(&isThere); err != nil || !isThere {
		return 0, err
	}
	var done int
	if err := from.QueryRowContext(ctx, `SELECT max(version) FROM weir_schema`).Scan(&done); err != nil {
		return 0, err
	}
	if done > len(migrations()) {
		return 0, fmt.Errorf("%w (%d, known is %d)", apikey.ErrNewer, done, len(migrations()))
	}
	return done, nil
}

func setVersion(ctx context.Context, tx *sql.Tx, version int) error {
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS weir_schema (version INTEGER NOT NULL)`); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO weir_schema (version) VALUES ($1)`, version)
	return err
}
