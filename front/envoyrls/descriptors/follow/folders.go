package follow

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

const (
	maxFolders = 4096
	maxLinks   = 40 // as Linux follows at most
)

// watchFolders watches every folder in which a change may change the files, and no other.
func (f *follower) watchFolders() error {
	folders := map[string]bool{}
	way(f.path, folders, maxLinks)
	tree(f.path, folders)
	files, _ := descriptors.Files(f.path, f.options) // what cannot be read is told of by whoever reads
	for _, file := range files {
		way(file, folders, maxLinks)
	}
	for _, old := range f.watcher.WatchList() {
		if !folders[old] {
			_ = f.watcher.Remove(old)
		}
	}
	for folder := range folders {
		if err := f.watcher.Add(folder); err != nil && exists(folder) {
			return fmt.Errorf("watch %s: %w", folder, err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// way adds the folders in which a step of the way to path may be replaced: those of path, and of every
// link on the way, as far as there is one.
func way(path string, folders map[string]bool, links int) {
	path, err := filepath.Abs(path)
	if err != nil || links == 0 {
		return
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at := root
	for part := range strings.SplitSeq(path[len(root):], string(filepath.Separator)) {
		step := filepath.Join(at, part)
		about, err := os.Lstat(step)
		if err != nil {
			folders[at] = true // it may come
			return
		}
		if about.Mode()&fs.ModeSymlink != 0 {
			folders[at] = true
			target, err := os.Readlink(step)
			if err != nil {
				return
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			way(filepath.Join(target, strings.TrimPrefix(path[len(step):], string(filepath.Separator))), folders, links-1)
			return
		}
		at = step
	}
	folders[filepath.Dir(path)] = true
}

// tree adds the folder at path and all below it, and nothing if path is no folder.
func tree(path string, folders map[string]bool) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it is gone, or not for us
		case len(folders) >= maxFolders:
			return fs.SkipAll
		case e.IsDir():
			folders[at] = true
		}
		return nil
	})
}
