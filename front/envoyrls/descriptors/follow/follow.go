// Package follow keeps a configuration in step with its files.
package follow

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

const (
	// settle is how long all files must have stayed the same before they are tried: editors and
	// orchestrators write in several steps.
	settle = 150 * time.Millisecond
	// patience is how long files that are wrong must have stayed the same before they are refused, in
	// case their writer only paused.
	patience = 1200 * time.Millisecond
	// lookAgain is how often files are looked at without an event: none comes from file systems that others
	// write to, as over a network or into a container.
	lookAgain = 5 * time.Second
)

// A sum identifies the content of all files.
type sum [sha256.Size]byte

// Watch tells changed what the files at path are now, and again whenever they are something else, until
// ctx is done. The set is nil if they have an error: what is in force should stay in force. Files that
// are written in several steps, or many at once, are told of once, and one and the same content only
// once.
//
// It follows files that are written, replaced, added and removed, and every link on the way to them:
// the root that a link swap replaces, and a Kubernetes ConfigMap. The content decides.
//
// An error says that nothing can be watched. changed is called from one goroutine.
func Watch(ctx context.Context, path string, o descriptors.Options, changed func(*descriptors.Set, []config.Problem)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer w.Close()
	f := follower{watcher: w, path: path, options: o, changed: changed}
	if err := f.watchFolders(); err != nil {
		return err
	}
	f.look(time.Now())
	f.try(true)
	return f.run(ctx)
}

// A follower knows what was told of last, and what was seen last.
type follower struct {
	watcher *fsnotify.Watcher
	path    string
	options descriptors.Options
	changed func(*descriptors.Set, []config.Problem)

	sources  []descriptors.Source
	problems []config.Problem // which of them could not be read
	seen     sum
	since    time.Time // when that was seen first
	told     sum
}

func (f *follower) run(ctx context.Context) error {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for soon := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-f.watcher.Events:
			if !soon {
				soon = true
				timer.Reset(settle)
			}
		case <-f.watcher.Errors: // some events may have been lost
			soon = true
			timer.Reset(settle)
		case now := <-timer.C:
			// A folder that has gone for the moment is found again by its parent.
			_ = f.watchFolders()
			switch soon = f.look(now); {
			case soon:
				timer.Reset(settle)
			case !f.try(now.Sub(f.since) >= patience):
				timer.Reset(patience)
			default:
				timer.Reset(lookAgain)
			}
		}
	}
}

// look reads the files, and reports whether they are others than at the last look.
func (f *follower) look(now time.Time) bool {
	f.sources, f.problems = descriptors.Read(f.path, f.options)
	s := sumOf(f.sources, f.problems)
	if s == f.seen {
		return false
	}
	f.seen, f.since = s, now
	return true
}

// try tells of what was seen, unless it was told of already, or is wrong and may not be final. It
// reports whether there is nothing left to tell.
func (f *follower) try(final bool) bool {
	if f.seen == f.told {
		f.sources = nil
		return true
	}
	var set *descriptors.Set
	problems := f.problems
	if !config.HasErrors(problems) {
		var more []config.Problem
		set, more = descriptors.Parse(f.sources, f.options)
		problems = append(problems, more...)
	}
	if set == nil && !final {
		return false
	}
	f.told, f.sources = f.seen, nil
	f.changed(set, problems)
	return true
}

// sumOf tells these files from any others.
func sumOf(sources []descriptors.Source, problems []config.Problem) sum {
	h := sha256.New()
	for _, s := range sources {
		fmt.Fprintf(h, "%d %s %d ", len(s.File), s.File, len(s.Content))
		_, _ = h.Write(s.Content)
	}
	for _, p := range problems {
		_, _ = io.WriteString(h, p.String())
	}
	return sum(h.Sum(nil))
}
