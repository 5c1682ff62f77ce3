package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A Log is an opened access log whose format is known.
type Log struct {
	Name   string
	Format *Format
	Auto   string // how the format was found; empty if it was told, or there is no line to find it by
	First  int64  // when its first request began, in Unix nanoseconds; 0 if there is none in its head

	zone    *time.Location
	lines   *bufio.Reader
	close   func() error
	callOff func() // ends the log with what has come of it; nil: it need not be, since no reading waits for others
}

// headSize is how much of a log is looked at before it is read.
const headSize = 256 << 10

// OpenOptions say how logs are read.
type OpenOptions struct {
	Format string         // auto, a name, or a pattern
	Zone   *time.Location // of times without one; nil is UTC
	Read   *atomic.Int64  // counts the bytes of the files, as they are on disk; nil: nobody asks
	// Context, when it is done, ends standard input with what has come of it, though somebody may still write
	// to it; nil: nothing does.
	Context context.Context
}

// Open opens the log of that name, - for standard input: plain, gzip or zstd, as its first bytes tell.
func Open(name string, o OpenOptions) (*Log, error) {
	var file io.ReadCloser
	var err error
	if name == "-" {
		file = newInput(o.Context, os.Stdin)
	} else if file, err = os.Open(name); err != nil {
		return nil, err
	}
	l, err := open(name, file, o)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func open(name string, file io.ReadCloser, o OpenOptions) (*Log, error) {
	text, end, err := inflate(&counted{file, o.Read})
	if err != nil {
		return nil, err
	}
	l := &Log{Name: name, zone: o.Zone, lines: bufio.NewReaderSize(text, headSize)}
	l.close = func() error { end(); return file.Close() }
	if in, ok := file.(*input); ok {
		l.callOff = in.callOff
	}
	head, err := l.lines.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := l.choose(o.Format, string(head)); err != nil {
		return nil, err
	}
	l.First = first(NewParser(l.Format, l.zone), string(head))
	return l, nil
}

// Close closes the log.
func (l *Log) Close() error { return l.close() }

// choose settles the format.
func (l *Log) choose(name, head string) (err error) {
	if name != "" && name != "auto" {
		l.Format, err = Lookup(name)
		return err
	}
	f, taken, of := Detect(head)
	switch {
	case of == 0:
		l.Format = row(0) // an empty log is of any format
		return nil
	case f == nil:
		return errors.New("no known format takes half of the first lines: name one with --format, or describe it, " +
			`as in --format '{client} - - [{time}] "{request}" {status} {bytes}'`)
	}
	l.Format, l.Auto = f, fmt.Sprintf("takes %d of the first %d lines", taken, of)
	return nil
}

// first is when the first request of head began, or 0.
func first(p *Parser, head string) int64 {
	var l Line
	for _, text := range firstLines(head) {
		if p.Parse(text, &l) == nil {
			return l.At
		}
	}
	return 0
}

// inflate returns the text of r. end frees what that takes.
func inflate(r io.Reader) (text io.Reader, end func(), err error) {
	packed := bufio.NewReaderSize(r, 64<<10)
	magic, err := packed.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(packed)
		return z, func() {}, err
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine and a window of at most 64 MiB: a log is not to choose how much memory it takes.
		z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return packed, func() {}, nil
}

// An input is a reader that can be called off while it waits: it then ends with what has come.
type input struct {
	*io.PipeReader
	callOff func()
}

// newInput returns from as an input that is called off when ctx, which may be nil, is done. A system call
// that waits cannot be: who is in one then is left to the end of the process.
func newInput(ctx context.Context, from io.Reader) *input {
	r, w := io.Pipe()
	in := &input{r, func() { w.Close() }}
	go func() {
		_, err := io.Copy(w, from)
		w.CloseWithError(err)
	}()
	if ctx != nil {
		context.AfterFunc(ctx, in.callOff)
	}
	return in
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n != nil {
		c.n.Add(int64(n))
	}
	return n, err
}

// OpenAll opens several logs, the one that begins first first. In which order they are named does not
// matter, since shells name rotated logs backwards.
func OpenAll(names []string, o OpenOptions) ([]*Log, error) {
	var logs []*Log
	for _, name := range names {
		l, err := Open(name, o)
		if err != nil {
			CloseAll(logs)
			return nil, err
		}
		logs = append(logs, l)
	}
	slices.SortStableFunc(logs, func(a, b *Log) int { return cmp.Or(cmp.Compare(a.First, b.First), strings.Compare(a.Name, b.Name)) })
	return logs, nil
}

// CloseAll closes logs that were only read, whose closing can lose nothing.
func CloseAll(logs []*Log) {
	for _, l := range logs {
		_ = l.Close() // nothing was written
	}
}

// Common returns what all of logs have.
func Common(logs []*Log) Has {
	var has Has
	for i, l := range logs {
		if i == 0 {
			has = l.Format.Has
		} else {
			has = has.And(l.Format.Has)
		}
	}
	return has
}
