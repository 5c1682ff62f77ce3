// Package localdb is the embedded database in data_dir: one file, weir.db, that one process holds.
//
// It keeps what must outlive the process where no shared store does: quota counts now. The file is a
// bbolt B+tree: a write is there as a whole or not at all, whenever the process or the machine dies.
package localdb

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var (
	// ErrLocked: another process holds the database.
	ErrLocked = errors.New("another process holds it (two Weirs with one data_dir, or a command while Weir runs: give it --admin)")
	// ErrDamaged: the file is no database, or a broken one.
	ErrDamaged = errors.New("the file is damaged: restore it from a copy, or move it away to start with an empty one")
	// ErrNewer: the file was written by a later version.
	ErrNewer = errors.New("the file was written by a later version of Weir: use that one, or another data_dir")
)

const (
	fileName = "weir.db"
	schema   = "1"
	// lockPatience is how long Open waits for a process that is about to end.
	lockPatience = 200 * time.Millisecond
)

var (
	metaBucket  = []byte("weir")
	schemaKey   = []byte("schema")
	quotaBucket = []byte("quota")
)

// A DB is an open database. It is safe for concurrent use.
type DB struct {
	path string
	bolt *bbolt.DB
}

// Open opens the database in dir, and makes both if they are not there. The error says which file
// it is and what is to be done: ErrLocked, ErrDamaged, ErrNewer or the system's own.
func Open(dir string) (*DB, error) {
	path := filepath.Join(dir, fileName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	d := &DB{path: path}
	if err := d.guard(d.open); err != nil {
		d.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// guard runs f, and makes an error of a panic or a fault: what bbolt, which maps the file into
// memory, does with a file that is broken.
func (d *DB) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, v)
		}
	}()
	return f()
}

func (d *DB) open() error {
	bolt, err := bbolt.Open(d.path, 0o600, &bbolt.Options{Timeout: lockPatience, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return cause(err)
	}
	d.bolt = bolt
	if err := d.checkSize(); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	return d.prepare()
}

// cause tells bbolt's errors in our words.
func cause(err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return ErrLocked
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	case errors.As(err, &path):
		return fmt.Errorf("%s: %w", path.Op, path.Err) // the caller names the file
	}
	return err
}

// checkSize refuses a file that was cut: to read past its end would be a fault.
func (d *DB) checkSize() error {
	info, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	return d.bolt.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("%w (%d bytes of %d)", ErrDamaged, info.Size(), tx.Size())
		}
		return nil
	})
}

// prepare makes the buckets of a new file, and checks the schema of an old one. It writes only where
// something is missing.
func (d *DB) prepare() error {
	isReady := false
	err := d.bolt.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		isReady = true
		if got := meta.Get(schemaKey); !bytes.Equal(got, []byte(schema)) {
			return fmt.Errorf("%w (schema %q, known is %s)", ErrNewer, got, schema)
		}
		if tx.Bucket(quotaBucket) == nil {
			return fmt.Errorf("%w (no quotas)", ErrDamaged)
		}
		return nil
	})
	if err != nil || isReady {
		return err
	}
	return d.bolt.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(quotaBucket); err != nil {
			return err
		}
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		return meta.Put(schemaKey, []byte(schema))
	})
}

// Close closes the database. It must be called once, after everything that uses it is closed.
func (d *DB) Close() error {
	if err := d.close(); err != nil {
		return fmt.Errorf("%s: close: %w", d.path, err)
	}
	return nil
}

func (d *DB) close() error {
	if d.bolt == nil {
		return nil
	}
	return d.bolt.Close()
}
