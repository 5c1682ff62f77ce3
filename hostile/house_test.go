// Package hostile_test attacks a real process of Weir from the network, and holds what it answers against what its
// upstream saw, byte for byte.
package hostile_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// A process is a running `weir run`.
type process struct {
	*proctest.Process
	t     testing.TB
	where map[string]any // addresses, by the front's name
}

// start runs Weir with a configuration, and at most so many descriptors. It ends with the test.
func start(t testing.TB, files int, yaml string) *process {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := proctest.Start("weir", dir, "/bin/sh", "-c", fmt.Sprintf("ulimit -n %d && exec %s run", files, proctest.Weir(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGKILL) })
	w := &process{Process: p, t: t}
	err = proctest.Await(proctest.Patience, func() error {
		lines := w.lines("weir is running")
		if len(lines) == 0 {
			return fmt.Errorf("weir does not run: %v\n%s", p.Gone(), p.Log())
		}
		w.where = lines[0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// lines returns the fields of the log's lines that say what.
func (w *process) lines(what string) (found []map[string]any) {
	for line := range strings.Lines(w.Log()) {
		var fields map[string]any
		if strings.Contains(line, what) && json.Unmarshal([]byte(line), &fields) == nil {
			found = append(found, fields)
		}
	}
	return found
}

// dial opens a connection to a front.
func (w *process) dial(front string) net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.where[front].(string))
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.Log())
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // so that a test that waits in vain ends
	return c
}

// get asks over a connection of its own.
func (w *process) get(front, path string) (status int, body string, err error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: proctest.Patience}
	answer, err := c.Get("http://" + w.where[front].(string) + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

// metric returns the sum of the series that begin so.
func (w *process) metric(series string) (sum float64) {
	w.t.Helper()
	_, body, err := w.get("admin", "/metrics")
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.Log())
	}
	for line := range strings.Lines(body) {
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, series) && i > 0 {
			v, _ := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
			sum += v
		}
	}
	return sum
}

// await waits until done returns nil.
func (w *process) await(what string, done func() error) {
	w.t.Helper()
	if err := proctest.Await(proctest.Patience, done); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// A recorder is an upstream that reads bytes. It knows two framings, each in one spelling, and takes everything else
// for rubbish.
type recorder struct {
	url string

	mu   sync.Mutex
	seen []string // requests, as they came
}

func record(t testing.TB) *recorder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &recorder{url: "http://" + l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.talk(c)
		}
	}()
	return r
}

// talk answers what comes over c.
func (r *recorder) talk(c net.Conn) {
	defer c.Close()
	for from := bufio.NewReader(c); ; {
		request, err := readRequest(from)
		if request == "" && err != nil || err == io.EOF || err == io.ErrUnexpectedEOF {
			return // what was broken off is no request
		}
		if err != nil {
			request = fmt.Sprintf("RUBBISH: %v in %q", err, request)
		}
		r.mu.Lock()
		r.seen = append(r.seen, request)
		r.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// take returns what was seen since the last time.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// readRequest reads one request, as it came. What came before an error is returned with it.
func readRequest(r *bufio.Reader) (string, error) {
	var all bytes.Buffer
	length, chunked := 0, false
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		all.WriteString(line)
		text, ok := strings.CutSuffix(line, "\r\n")
		name, value, colon := strings.Cut(text, ": ")
		switch {
		case err != nil:
			return all.String(), err
		case !ok || strings.ContainsAny(text, "\r\n\x00"):
			return all.String(), fmt.Errorf("a line that ends badly: %q", line)
		case text == "" && n == 0:
			return all.String(), fmt.Errorf("no request line")
		case text == "":
			body, err := readBody(r, length, chunked)
			return all.String() + body, err
		case n == 0:
			if f := strings.Split(text, " "); len(f) != 3 || f[2] != "HTTP/1.1" || f[1] == "" {
				return all.String(), fmt.Errorf("a request line: %q", text)
			}
			continue
		case !colon || strings.ContainsAny(name, " \t"):
			return all.String(), fmt.Errorf("a field line: %q", text)
		}
		switch strings.ToLower(name) {
		case "content-length":
			if length, err = strconv.Atoi(value); err != nil || chunked || name != "Content-Length" {
				return all.String(), fmt.Errorf("framing: %q", text)
			}
		case "transfer-encoding":
			if chunked = value == "chunked"; !chunked || length > 0 {
				return all.String(), fmt.Errorf("framing: %q", text)
			}
		}
	}
}

// readBody reads a body, as it came.
func readBody(r *bufio.Reader, length int, chunked bool) (string, error) {
	var all bytes.Buffer
	if !chunked {
		_, err := io.CopyN(&all, r, int64(length))
		return all.String(), err
	}
	for {
		line, err := r.ReadString('\n')
		all.WriteString(line)
		size, bad := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 31)
		switch {
		case err != nil:
			return all.String(), err
		case bad != nil || !strings.HasSuffix(line, "\r\n"):
			return all.String(), fmt.Errorf("a chunk's size: %q", line)
		case size == 0:
			trailers, err := readTrailers(r)
			return all.String() + trailers, err
		}
		if _, err := io.CopyN(&all, r, int64(size)+2); err != nil || !bytes.HasSuffix(all.Bytes(), []byte("\r\n")) {
			return all.String(), fmt.Errorf("a chunk's end: %w", err)
		}
	}
}

func readTrailers(r *bufio.Reader) (string, error) {
	var all strings.Builder
	for {
		line, err := r.ReadString('\n')
		all.WriteString(line)
		if err != nil || line == "\r\n" {
			return all.String(), err
		}
	}
}
