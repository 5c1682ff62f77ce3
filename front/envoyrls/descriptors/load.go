package descriptors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirgate/weir/config"
)

const (
	maxFiles = 1000
	maxTotal = 64 << 20 // bytes of all files in sum
)

// Load returns the set that the file at path, or all files in the folder at path and below it, make,
// and what is wrong with them. Every file counts, whatever it is called, in the order of their paths.
// Links to files are followed, links to folders are not, except path itself.
//
// The set is nil if there is an error: one bad file refuses all of them.
func Load(path string, o Options) (*Set, []config.Problem) {
	sources, problems := Read(path, o)
	if config.HasErrors(problems) {
		return nil, problems
	}
	set, more := Parse(sources, o)
	return set, append(problems, more...)
}

// Read returns the files that Load reads, and which of them cannot be read.
func Read(path string, o Options) ([]Source, []config.Problem) {
	n := notes{}
	files, err := Files(path, o)
	switch {
	case err != nil:
		n.wrong(Position{}, "", err.Error(), "want a readable file, or a folder of them")
	case len(files) == 0:
		n.idle(Position{}, "", path+": there is no file, so that nothing is limited", "want a folder of YAML files")
	}
	var sources []Source
	total := 0
	for _, file := range files {
		n.file = file
		content, err := readFile(file)
		if total += len(content); total > maxTotal {
			n.wrong(Position{}, "", "too large with the files before it", fmt.Sprintf("want at most %d MiB in all files", maxTotal>>20))
			break
		}
		if err != nil {
			n.wrong(Position{}, "", err.Error(), "want a readable file")
		}
		sources = append(sources, Source{File: file, Content: content})
	}
	return sources, n.problems
}

// Files returns the names of the files that Load reads, in its order. An error says which file or folder
// cannot be read, or that there are too many.
func Files(path string, o Options) ([]string, error) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, cause(path, err)
	}
	var files []string
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return cause(file, err)
		case file != root && o.IgnoreDotFiles && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
		case isFile(file, e):
			files = append(files, filepath.Join(path, strings.TrimPrefix(file, root)))
		}
		if len(files) > maxFiles {
			return fmt.Errorf("%s: more than %d files", path, maxFiles)
		}
		return nil
	})
	return files, err
}

// isFile reports whether e, or what it is a link to, is a regular file. Nothing else can be read to an
// end, and a link that leads nowhere is left to whoever reads it.
func isFile(file string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	about, err := os.Stat(file)
	return err != nil || about.Mode().IsRegular()
}

// readFile returns the content of file, at most a byte more than a file may have.
func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	return content, reason(err)
}

// cause names the file once, and what is wrong with it.
func cause(file string, err error) error {
	return fmt.Errorf("%s: %w", file, reason(err))
}

// reason is err without the name of the file, which is said elsewhere.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// hidden reports whether one of the folders that file is in, or file itself, begins with a dot.
func hidden(file string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(file), "/") {
		if strings.HasPrefix(part, ".") && part != "." && part != ".." {
			return true
		}
	}
	return false
}
