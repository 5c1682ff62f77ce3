// Package kept holds what was made of files when they were last good, such as a certificate and its key.
package kept

import (
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// lookEvery is how often the files are looked at, when somebody asks.
const lookEvery = time.Second

// Files are what was made of some files, which are read again when one of them changes, by symlink swap or in
// place. They are safe for concurrent use.
type Files[T any] struct {
	names   []string
	read    func() (T, error)
	logger  *slog.Logger
	current atomic.Pointer[T]
	seen    atomic.Pointer[[]stamp] // of the files, whether they could be used or not
	next    atomic.Int64            // when to look again, in Unix nanoseconds
}

// A stamp changes with a file. It is the zero stamp of one that is not there.
type stamp struct {
	changed time.Time
	size    int64
}

// Read returns what read makes of the files of those names; empty names are of no file. The logger is told of
// every change.
func Read[T any](read func() (T, error), logger *slog.Logger, names ...string) (*Files[T], error) {
	f := &Files[T]{names: names, read: read, logger: logger}
	f.seen.Store(f.look()) // before the files are read, so that no change is missed
	v, err := read()
	if err != nil {
		return nil, err
	}
	f.current.Store(&v)
	return f, nil
}

func (f *Files[T]) look() *[]stamp {
	stamps := make([]stamp, len(f.names))
	for i, name := range f.names {
		if st, err := os.Stat(name); err == nil {
			stamps[i] = stamp{st.ModTime(), st.Size()}
		}
	}
	return &stamps
}

// At returns what was made of the files as they were at now, or at most a second before. Files that cannot be
// used leave what there was. One caller in a while looks, and none waits for it.
func (f *Files[T]) At(now time.Time) T {
	next := f.next.Load()
	if now.UnixNano() >= next && f.next.CompareAndSwap(next, now.Add(lookEvery).UnixNano()) {
		f.refresh()
	}
	return *f.current.Load()
}

// refresh reads the files again if they changed.
func (f *Files[T]) refresh() {
	stamps := f.look()
	if slices.Equal(*stamps, *f.seen.Load()) {
		return // also if they could not be used: that was said once
	}
	f.seen.Store(stamps)
	v, err := f.read()
	if err != nil {
		f.logger.Warn("the certificate could not be read again and stays as it was", "error", err)
		return
	}
	f.current.Store(&v)
	f.logger.Info("the certificate was read again", "cert", f.names[0])
}
