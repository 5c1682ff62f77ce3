package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
)

// A Batch is what stands in one piece of a log, in its order.
type Batch struct {
	Lines     []Line
	Broken    []Broken // the first of them
	BrokenAll int64    // how many there are
	NoRequest int64    // lines about no HTTP request
	Read      int64    // lines, all of them
}

// A Broken is a line that could not be read.
type Broken struct {
	Number int64  `json:"line"` // from 1
	Why    string `json:"why"`
	Text   string `json:"text"` // its beginning
}

const (
	pieceSize   = 128 << 10
	longestLine = 64 << 10
	ahead       = 8  // pieces that are read before they are asked for: a pause of who reads or takes need not stop the other
	brokenKept  = 20 // of one piece
	brokenText  = 120
)

var errLong = errors.New("longer than 64 KiB")

// A piece is a part of a log that ends with a line, and where its lines will be.
type piece struct {
	text  string
	first int64 // the number of its first line
	cut   bool  // the rest of its last line was too long, and left out
	done  chan *Batch
}

// A Stream is a log that is being read, piece by piece: the next ones are parsed meanwhile, by as many
// goroutines as there are processors. It must be closed, and is for one goroutine.
type Stream struct {
	log     *Log
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	ordered chan *piece // closed at the end, and failed says why
	failed  error
	batches sync.Pool
	held    *Batch // what Next returned last
}

// Stream begins to read the log, which can be done once.
func (l *Log) Stream(ctx context.Context) *Stream {
	if l.callOff != nil {
		ctx = context.WithoutCancel(ctx) // what has come is read to its end
	}
	s := &Stream{log: l, ordered: make(chan *piece, ahead), batches: sync.Pool{New: func() any { return new(Batch) }}}
	s.ctx, s.stop = context.WithCancel(ctx)
	todo := make(chan *piece, ahead)
	s.running.Go(func() {
		defer close(s.ordered)
		defer close(todo)
		s.failed = l.cut(func(p *piece) bool {
			return send(s.ctx, s.ordered, p) && send(s.ctx, todo, p)
		})
	})
	for range runtime.GOMAXPROCS(0) {
		s.running.Go(func() {
			parser := NewParser(l.Format, l.zone)
			for p := range todo {
				b := s.batches.Get().(*Batch)
				b.parse(parser, p)
				p.done <- b
			}
		})
	}
	return s
}

// Next returns the next lines, good until the next call. [io.EOF] says that there are none; another error
// that the log cannot be read on, or that the context is done.
func (s *Stream) Next() (*Batch, error) {
	if s.held != nil {
		s.batches.Put(s.held)
		s.held = nil
	}
	p, more := s.receive()
	switch {
	case s.ctx.Err() != nil:
		return nil, s.ctx.Err()
	case !more && s.failed != nil:
		return nil, fmt.Errorf("%s: %w", s.log.Name, s.failed)
	case !more:
		return nil, io.EOF
	}
	select {
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	case s.held = <-p.done:
		return s.held, nil
	}
}

func (s *Stream) receive() (p *piece, more bool) {
	select {
	case p, more = <-s.ordered:
	case <-s.ctx.Done():
	}
	return p, more
}

// Close ends the reading.
func (s *Stream) Close() {
	s.stop()
	if s.log.callOff != nil {
		s.log.callOff()
	}
	s.running.Wait()
}

// Each reads the log to its end and hands its lines to take, piece by piece and in order. A batch is good
// until take returns. It ends early, with the reason, when take fails or ctx is done.
func (l *Log) Each(ctx context.Context, take func(*Batch) error) error {
	s := l.Stream(ctx)
	defer s.Close()
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(b); err != nil {
			return err
		}
	}
}

func send(ctx context.Context, to chan<- *piece, p *piece) bool {
	select {
	case to <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// cut cuts the log into pieces until it ends or hand says so.
func (l *Log) cut(hand func(*piece) bool) error {
	buf, held, number := make([]byte, pieceSize+longestLine), 0, int64(1)
	for {
		n, err := fill(l.lines, buf[held:held+pieceSize])
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		text := buf[:held+n]
		size, long := whole(text, ended)
		if size > 0 && !hand(newPiece(text[:size], number, long)) {
			return nil
		}
		number += int64(bytes.Count(text[:size], newline))
		held = copy(buf, text[size:])
		if long {
			number++
			err = skipLine(l.lines)
		}
		if ended || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill reads until buf is full or r ends, with io.EOF, or fails. Unlike io.ReadFull it tells what is cut
// off (io.ErrUnexpectedEOF of what is packed) from what ends.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}

// whole returns how much of text is whole lines. A last one that is too long is among them, as far as
// it is there.
func whole(text []byte, ended bool) (size int, long bool) {
	size = bytes.LastIndexByte(text, '\n') + 1
	switch {
	case len(text)-size > longestLine:
		return len(text), true
	case ended:
		return len(text), false
	}
	return size, false
}

// newPiece copies text, and ends its last line where that has no end.
func newPiece(text []byte, first int64, long bool) *piece {
	p := &piece{first: first, cut: long, done: make(chan *Batch, 1)}
	if bytes.HasSuffix(text, newline) {
		p.text = string(text)
	} else {
		p.text = string(text) + "\n"
	}
	return p
}

var newline = []byte{'\n'}

// skipLine reads to the end of a line.
func skipLine(r *bufio.Reader) error {
	for {
		_, err := r.ReadSlice('\n')
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// parse fills b from p.
func (b *Batch) parse(parser *Parser, p *piece) {
	*b = Batch{Lines: b.Lines[:0], Broken: b.Broken[:0]}
	rest, number := p.text, p.first
	for ; rest != ""; number++ {
		end := strings.IndexByte(rest, '\n')
		line := strings.TrimSuffix(rest[:end], "\r")
		rest = rest[end+1:]
		b.Read++
		b.add(parser, line, number, len(line) > longestLine || p.cut && rest == "")
	}
}

// add parses one line into b.
func (b *Batch) add(parser *Parser, text string, number int64, tooLong bool) {
	if len(b.Lines) == cap(b.Lines) {
		b.Lines = append(b.Lines, Line{})[:len(b.Lines)]
	}
	l := &b.Lines[:len(b.Lines)+1][len(b.Lines)]
	err := errLong
	if !tooLong {
		err = parser.Parse(text, l)
	}
	switch {
	case err == nil:
		l.Number = number
		b.Lines = b.Lines[:len(b.Lines)+1]
	case errors.Is(err, ErrNoRequest) || strings.TrimSpace(text) == "":
		b.NoRequest++
	default:
		if b.BrokenAll++; len(b.Broken) < brokenKept {
			b.Broken = append(b.Broken, Broken{number, err.Error(), strings.ToValidUTF8(text[:min(len(text), brokenText)], "\uFFFD")})
		}
	}
}
