// Package localdb is the embedded database in data_dir: one file, weir.db, that one process holds.
//
// It keeps what must outlive the process where no shared store does: quota counts, and what other
// packages keep in tables of their own. The file is SQLite's, with a write-ahead log beside it: a write is
// there as a whole or not at all, whenever the process or the machine dies.
package localdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrLocked: another process holds the database.
	ErrLocked = errors.New("another process holds it (two Weirs with one data_dir, or a command while Weir runs: give it --admin)")
	// ErrDamaged: the file is no database, or a broken one.
	ErrDamaged = errors.New("the file is damaged: restore it from a copy, or move it away to start with an empty one")
	// ErrNewer: the file was written by a later version.
	ErrNewer = errors.New("the file was written by a later version of Weir: use that one, or another data_dir")
)

const fileName = "weir.db"

// Exists reports whether there is a database in dir, or something in its place.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, fileName))
	return err == nil
}

// settings are those of the one connection. Who opened the file holds it, and waits 200 ms for a process
// that is about to end. What is committed is on the disk.
var settings = url.Values{
	"_pragma": {"busy_timeout(200)", "locking_mode(EXCLUSIVE)", "journal_mode(WAL)", "synchronous(FULL)"},
	"_txlock": {"immediate"},
}

// A DB is an open database. It is safe for concurrent use.
type DB struct {
	path string
	sql  *sql.DB
}

// Open opens the database in dir, and makes both if they are not there. The error says which file
// it is and what is to be done: ErrLocked, ErrDamaged, ErrNewer or the system's own.
func Open(dir string) (*DB, error) {
	path := filepath.Join(dir, fileName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	d := &DB{path: path}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(errors.Join(err, d.close())))
	}
	return d, nil
}

func (d *DB) open() error {
	// SQLite would make a file that others may read.
	file, err := os.OpenFile(d.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return errors.Unwrap(err) // the caller names the file
	}
	if err := file.Close(); err != nil {
		return err
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: d.path, RawQuery: settings.Encode()}
	if d.sql, err = sql.Open("sqlite", name.String()); err != nil {
		return err
	}
	d.sql.SetMaxOpenConns(1) // a second one would find the file locked
	if err := d.check(); err != nil {
		return err
	}
	if err := d.migrate("parts", parts); err != nil {
		return err
	}
	return d.migrate("quota", quotas)
}

// check reads the whole file, and reports whether it hangs together.
func (d *DB) check() error {
	var found string
	if err := d.sql.QueryRow("PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w (%s)", ErrDamaged, found)
	}
	return nil
}

// SQL is the database for a package that keeps tables of its own in it, which it makes by Migrate. It has
// one connection: whoever holds rows open keeps all others waiting.
func (d *DB) SQL() *sql.DB { return d.sql }

// fail says that what failed.
func (d *DB) fail(what string, err error) error {
	return fmt.Errorf("%s: %s: %w", d.path, what, cause(err))
}

// cause tells SQLite's errors in our words, where there are some.
func cause(err error) error {
	const primary = 0xff // of a code; the rest says more
	var own *sqlite.Error
	if !errors.As(err, &own) {
		return err
	}
	switch own.Code() & primary {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrLocked
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return err
}

// Close closes the database. It must be called once, after everything that uses it is closed.
func (d *DB) Close() error {
	if err := d.close(); err != nil {
		return d.fail("close", err)
	}
	return nil
}

func (d *DB) close() error {
	if d.sql == nil {
		return nil
	}
	return d.sql.Close()
}

// inTransaction has f write as a whole or not at all.
func (d *DB) inTransaction(f func(*sql.Tx) error) error {
	tx, err := d.sql.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
