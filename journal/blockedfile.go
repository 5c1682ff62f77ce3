package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirgate/weir/internal/tail"
)

const (
	// BlockedName is the name of the file of blocked requests in the data directory.
	BlockedName = "blocked.jsonl"
	// Retention is how long a blocked request is kept.
	Retention = 30 * 24 * time.Hour

	saveEvery   = time.Second    // what was blocked since is lost where the process is killed
	rewriteIdle = 24 * time.Hour // lines that are of no use any longer go after this time
	retryAfter  = time.Minute    // after a failure
	mostFile    = 64 << 20       // so much of the file's end is read, in bytes
)

// A blockedFile is the list of blocked requests on disk: a JSON object a line, the newest last, at most twice
// as many as the list holds. The list is the queue to it: what has left the list before it was written is not
// written. It belongs to one goroutine at a time.
type blockedFile struct {
	mu      sync.Mutex // of all below
	path    string
	lines   int       // in the file
	saved   uint64    // so many of what was added to the list are in the file, or not to be
	rewrite bool      // the file holds what it should not
	swept   time.Time // when it was last rewritten, or first looked at
	failed  time.Time // when it could not be written; zero: it could
}

func newBlockedFile(dir string) *blockedFile {
	if dir == "" {
		return nil
	}
	return &blockedFile{path: filepath.Join(dir, BlockedName)}
}

// load fills an empty list with what the file holds that is not too old. A line that is none of ours, as the
// last one is where the process was killed while it wrote, is passed over.
func (f *blockedFile) load(to *blockedRing, now time.Time) error {
	f.swept = now
	text, err := tail.Read(f.path, mostFile)
	if err != nil {
		return fmt.Errorf("blocked requests: %w", err)
	}
	for line := range bytes.Lines(text) {
		var b Blocked
		f.lines++
		if line[len(line)-1] != '\n' || json.Unmarshal(line, &b) != nil || b.Time.Before(now.Add(-Retention)) {
			f.rewrite = true
			continue
		}
		to.add(b)
	}
	f.saved = to.added
	return nil
}

// save brings the file in step with the list, of which it drops what is too old.
func (f *blockedFile) save(r *blockedRing, now time.Time) error {
	r.forget(now.Add(-Retention))
	kept, fresh, added := r.since(f.saved)
	useless := f.lines + len(fresh) - len(kept)
	var err error
	switch {
	case f.rewrite || useless > r.size() || useless > 0 && now.Sub(f.swept) >= rewriteIdle:
		if err = f.replace(kept); err == nil {
			f.lines, f.rewrite, f.swept = len(kept), false, now
		}
	case len(fresh) > 0:
		if err = f.append(fresh); err == nil {
			f.lines += len(fresh)
		}
	}
	if err != nil {
		f.rewrite = true // nobody knows what it holds
		return fmt.Errorf("blocked requests: %w", err)
	}
	f.saved = added
	return nil
}

// append writes blocked requests to the end of the file. The folder and the file are made with the first.
func (f *blockedFile) append(list []Blocked) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	return write(f.path, os.O_APPEND, list)
}

// replace puts a file of the list in the place of the file, in one step.
func (f *blockedFile) replace(list []Blocked) error {
	beside := f.path + ".new"
	err := os.MkdirAll(filepath.Dir(f.path), 0o700)
	if err == nil {
		err = write(beside, os.O_TRUNC, list)
	}
	if err == nil {
		err = os.Rename(beside, f.path)
	}
	return err
}

func write(path string, how int, list []Blocked) error {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	for i := range list {
		if err := to.Encode(&list[i]); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, how|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}

// since returns all that is kept, those of it that were added after the first n, and how many were added by now.
func (r *blockedRing) since(n uint64) (kept, fresh []Blocked, added uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept = append(kept, r.kept(r.keep)...)
	return kept, kept[len(kept)-min(int(r.added-n), len(kept)):], r.added
}

// size is how many the list may hold.
func (r *blockedRing) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keep
}

// Save writes down which requests were blocked since the last time, if there is a data directory. Run does so
// every second; it is called once more when nothing is recorded any longer.
func (j *Journal) Save() {
	f, now := j.file, j.now()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.failed.IsZero() && now.Sub(f.failed) < retryAfter {
		return
	}
	err := f.save(j.blocked, now)
	if err != nil && f.failed.IsZero() {
		j.log.Warn("a restart forgets which requests were blocked: see data_dir", "err", err)
	}
	if f.failed = (time.Time{}); err != nil {
		f.failed = now
	}
}
