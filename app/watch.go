package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must have been left alone before it is read: editors and orchestrators
// write in several steps.
const settle = 200 * time.Millisecond

// patience is how much longer a file that is wrong is waited for, in case its writer only paused.
const patience = time.Second

// watch calls reload whenever the content of the file at path has changed, until ctx is done. It
// follows a file that is replaced by a rename, or by the swap of a symlink as a Kubernetes ConfigMap
// is: the folders are watched, and the content decides. A content that reload refuses is tried once
// more after a while, and only then is report set.
func watch(ctx context.Context, path string, log *slog.Logger, reload func(report bool) error) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer w.Close()
	if err := watchFolders(w, path); err != nil {
		return err
	}
	last, waited := sum(path), [sha256.Size]byte{}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Events:
			timer.Reset(settle)
		case err := <-w.Errors:
			log.Warn("the configuration is not watched reliably; SIGHUP still reloads it", "err", err)
		case <-timer.C:
			now := sum(path)
			if now == last {
				continue
			}
			if err := reload(now == waited); err != nil && now != waited {
				waited = now
				timer.Reset(patience)
				continue
			}
			last = now
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

// sum identifies the content of a file; one that cannot be read has the zero sum.
func sum(path string) [sha256.Size]byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}
