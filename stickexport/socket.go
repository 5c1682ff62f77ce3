package stickexport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"
)

// maxLine is the longest line that is read, in bytes. HAProxy writes an entry into one of its buffers, of
// 16 KiB as a rule.
const maxLine = 64 << 10

// A socket is HAProxy's runtime socket: a path, unix:PATH, or host:port.
type socket struct {
	addr    string
	timeout time.Duration // for one answer, from connecting to its end
}

// errEnough ends an answer of which no more is needed.
var errEnough = errors.New("enough")

// ask sends a command and gives each line of the answer to read, which may keep nothing of it. An error of
// read ends the answer.
func (s socket) ask(ctx context.Context, command string, read func(line []byte) error) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(s.timeout)) // fails where the connection has ended
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return fmt.Errorf("%s: %w", s.addr, err)
	}
	switch err := eachLine(conn, read); {
	case errors.Is(err, errEnough):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%s: %s: %w", s.addr, command, err)
	}
	return nil
}

// eachLine reads up to the empty line that an answer ends with.
func eachLine(from io.Reader, read func(line []byte) error) error {
	in := bufio.NewReaderSize(from, maxLine)
	for lines := 0; ; lines++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("a line of more than %d bytes", maxLine)
		case err == io.EOF && lines == 0:
			return errors.New("no answer: is it HAProxy's runtime socket?")
		case err == io.EOF:
			return errors.New("the answer ends early")
		case err != nil:
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			return nil
		}
		if err := read(line); err != nil {
			return err
		}
	}
}

func (s socket) dial(ctx context.Context) (net.Conn, error) {
	network, addr := "tcp", s.addr
	if path, unix := strings.CutPrefix(addr, "unix:"); unix || strings.Contains(addr, "/") {
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: s.timeout}
	conn, err := d.DialContext(ctx, network, addr)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such socket: want the address of a \"stats socket\" line of HAProxy's", s.addr)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: permission denied: want to run as a user or group that the \"stats socket\" line names", s.addr)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: nobody listens: does HAProxy run?", s.addr)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.addr, err)
	}
	return conn, nil
}
