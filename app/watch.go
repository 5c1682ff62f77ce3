package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file's content must have stayed the same before it is tried: editors and
// orchestrators write in several steps.
const settle = 150 * time.Millisecond

// patience is how long a content that is wrong must have stayed the same before it is refused, in
// case its writer only paused.
const patience = 1200 * time.Millisecond

// lookAgain is how often the file is looked at without an event: none comes where a link on the way to it is swapped,
// nor from file systems that others write to, as over a network or into a container.
const lookAgain = 5 * time.Second

// watch calls changed when the content of the file at path may have changed, until ctx is done, and
// again after a while if it asks for that; final tells it that this was the last while. It follows a
// file that is replaced by a rename, or by the swap of a symlink as a Kubernetes ConfigMap is: the
// folders are watched, and the content decides; of what they do not tell it learns by lookAgain. Nor
// does it wait for other files of a busy folder to be left alone.
func watch(ctx context.Context, path string, log *slog.Logger, changed func(content [sha256.Size]byte, final bool) (again bool)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer w.Close()
	if err := watchFolders(w, path); err != nil {
		return err
	}
	looked, since := sum(path), time.Now()
	timer, soon := time.NewTimer(settle), true
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			log.Warn("the configuration is not watched reliably; SIGHUP still reloads it", "err", err)
		case <-w.Events:
			if !soon {
				soon = true
				timer.Reset(settle)
			}
		case <-timer.C:
			content, now := sum(path), time.Now()
			switch soon = content != looked; {
			case soon:
				looked, since = content, now
				timer.Reset(settle)
			case changed(content, now.Sub(since) >= patience):
				timer.Reset(patience)
			default:
				timer.Reset(lookAgain)
			}
		}
	}
}

// watchFolders watches the folder that path is in, and the one that it leads to.
func watchFolders(w *fsnotify.Watcher, path string) error {
	folders := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		folders = append(folders, filepath.Dir(target))
	}
	for _, folder := range folders {
		if err := w.Add(folder); err != nil {
			return fmt.Errorf("watch %s: %w", folder, err)
		}
	}
	return nil
}

// maxSummed is how much of a file is read to tell its content from another, in bytes: more than a
// configuration may have.
const maxSummed = 8 << 20

// sum identifies the content of a file. One that cannot be read, or is no regular file and could be
// read once only or for ever, has the zero sum.
func sum(path string) [sha256.Size]byte {
	if !regular(path) {
		return [sha256.Size]byte{}
	}
	f, err := os.Open(path)
	if err != nil {
		return [sha256.Size]byte{}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxSummed)); err != nil {
		return [sha256.Size]byte{}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func regular(path string) bool {
	about, err := os.Stat(path)
	return err == nil && about.Mode().IsRegular()
}
