package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/internal/tail"
)

// A Trail is the audit log: a file to which lines are appended, one JSON object each. It is safe for
// concurrent use. The folder and the file are made with the first line.
type Trail struct {
	path string
	mu   sync.Mutex
}

// TrailName is the file's name in the data directory.
const TrailName = "audit.log"

// NewTrail returns the audit log in a folder.
func NewTrail(dir string) *Trail { return &Trail{path: filepath.Join(dir, TrailName)} }

// Append writes a line to the end of the file, and to the disk.
func (t *Trail) Append(line AuditLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := t.open()
	if err != nil {
		return err
	}
	_, err = f.Write(append(plain.JSON(nil, text), '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// open opens the file for appending.
func (t *Trail) open() (*os.File, error) {
	err := os.MkdirAll(filepath.Dir(t.path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(t.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			return f, nil
		}
	}
	return nil, fmt.Errorf("audit log: %w", err)
}

// writable returns why no line can be appended, or nil.
func (t *Trail) writable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := t.open()
	if err != nil {
		return err
	}
	return f.Close()
}

// tailBytes is how much of the file's end is read.
const tailBytes = 256 << 10

// Last returns the last n lines, or as many as stand in the last 256 KiB, the newest first. What is no line
// of ours is left out.
func (t *Trail) Last(n int) ([]AuditLine, error) {
	text, err := tail.Read(t.path, tailBytes)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	lines := []AuditLine{}
	for _, text := range slices.Backward(bytes.Split(text, []byte("\n"))) {
		var line AuditLine
		if len(lines) < n && len(text) > 0 && json.Unmarshal(text, &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func (s *Server) audit(c *call) (any, error) {
	if s.o.Trail == nil {
		return Audit{Lines: []AuditLine{}}, nil
	}
	lines, err := s.o.Trail.Last(c.number("limit"))
	return Audit{lines}, err
}

// change does what line says, and writes it down, done or not. What could not be written down is not done.
func (s *Server) change(c *call, line *AuditLine, do func() error) error {
	if s.o.Trail == nil {
		return problem(http.StatusNotImplemented, "failed", "there is no audit log, and nothing is changed without one")
	}
	if err := s.o.Trail.writable(); err != nil {
		return problem(http.StatusInternalServerError, "failed", "nothing is changed that cannot be written down: "+err.Error()+": see data_dir")
	}
	err := do()
	line.Time, line.Who, line.Peer = s.o.Now().UTC(), string(c.who), c.r.RemoteAddr
	line.Reason = cut(line.Reason)
	if err != nil {
		line.Error = err.Error()
	}
	if missing := s.o.Trail.Append(*line); missing != nil {
		s.o.Log.Error("the audit log lacks a change", "made", err == nil, "what", line.What, "target", line.Target, "err", missing)
	}
	return err
}
