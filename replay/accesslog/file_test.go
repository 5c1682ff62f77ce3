package accesslog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const combinedLine = `203.0.113.7 - - [10/Oct/2000:13:55:%02d +0000] "GET /%d HTTP/1.1" 200 1 "-" "curl"` + "\n"

func combinedLog(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, combinedLine, i%60, i)
	}
	return text.String()
}

func packed(t *testing.T, kind, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	switch kind {
	case "gzip":
		z := gzip.NewWriter(&out)
		if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
	default:
		out.WriteString(text)
	}
	return out.Bytes()
}

func logFile(t *testing.T, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A sum is all that was read of a log.
type sum struct {
	Paths            []string
	Numbers          []int64
	Broken           []Broken
	Read, All, NoOne int64
}

func readAll(t *testing.T, name string, o OpenOptions) sum {
	t.Helper()
	l, err := Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var s sum
	err = l.Each(t.Context(), func(b *Batch) error {
		for i := range b.Lines {
			s.Paths, s.Numbers = append(s.Paths, b.Lines[i].Path), append(s.Numbers, b.Lines[i].Number)
		}
		s.Broken = append(s.Broken, b.Broken...)
		s.Read, s.All, s.NoOne = s.Read+b.Read, s.All+b.BrokenAll, s.NoOne+b.NoRequest
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Plain, gzip and zstd are told by their first bytes, and every line comes once and in order, over the
// borders of many pieces.
func TestReadsWhatIsPacked(t *testing.T) {
	const n = 5000
	var want sum
	for i := range n {
		want.Paths, want.Numbers = append(want.Paths, fmt.Sprintf("/%d", i)), append(want.Numbers, int64(i+1))
	}
	want.Read = n
	for _, kind := range []string{"plain", "gzip", "zstd"} {
		data := packed(t, kind, combinedLog(n))
		var read atomic.Int64
		if diff := cmp.Diff(want, readAll(t, logFile(t, data), OpenOptions{Format: "auto", Read: &read})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if read.Load() != int64(len(data)) {
			t.Errorf("%s: counted %d bytes of %d", kind, read.Load(), len(data))
		}
	}
}

// Lines that cannot be read are counted with their numbers, whatever stands around them.
func TestBrokenLines(t *testing.T) {
	long := strings.Repeat("x", 3*longestLine)
	good := func(i int) string { return fmt.Sprintf(combinedLine, 0, i) }
	text := good(1) + "nonsense\n" + "\n" + good(2) + long + "\n" + good(3) + strings.TrimSuffix(good(4), "\n") + "\r\n" + "caf\xe9 is no line"
	want := sum{
		Paths: []string{"/1", "/2", "/3", "/4"}, Numbers: []int64{1, 4, 6, 7}, Read: 8, All: 3, NoOne: 1,
		Broken: []Broken{{2, "not of this format", "nonsense"}, {5, "longer than 64 KiB", long[:brokenText]}, {8, "not of this format", "caf\uFFFD is no line"}},
	}
	if diff := cmp.Diff(want, readAll(t, logFile(t, []byte(text)), OpenOptions{Format: "combined"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line may be as long as a piece's reserve, to the byte.
func TestLongestLine(t *testing.T) {
	base := fmt.Sprintf(combinedLine, 0, 1)
	fit := strings.Replace(base, "curl", strings.Repeat("u", longestLine-len(base)+1+len("curl")), 1)
	for _, text := range []string{fit, strings.Repeat(base, 1500) + fit + base} {
		if s := readAll(t, logFile(t, []byte(text)), OpenOptions{Format: "combined"}); s.All != 0 {
			t.Errorf("64 KiB: %v", s.Broken)
		}
		text = strings.Replace(text, "uuu", "uuuu", 1)
		if s := readAll(t, logFile(t, []byte(text)), OpenOptions{Format: "combined"}); s.All != 1 || s.Broken[0].Why != errLong.Error() {
			t.Errorf("64 KiB and a byte: %d broken", s.All)
		}
	}
}

// Empty logs are logs, and what no format takes is an error that says what to do.
func TestOpen(t *testing.T) {
	if s := readAll(t, logFile(t, nil), OpenOptions{}); s.Read != 0 {
		t.Errorf("an empty log has %d lines", s.Read)
	}
	for text, want := range map[string]string{
		"this\nis\nno\nlog\n": "name one with --format",
		"\x1f\x8bgarbage":     "unexpected EOF",
	} {
		if _, err := Open(logFile(t, []byte(text)), OpenOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), OpenOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(logFile(t, []byte("x\n")), OpenOptions{Format: "{clint}"}); err == nil {
		t.Error("a bad pattern opens")
	}
}

// A packed log that is cut off is an error, and what came before it was read.
func TestCutOff(t *testing.T) {
	data := packed(t, "gzip", combinedLog(50_000))
	l, err := Open(logFile(t, data[:len(data)/2]), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := int64(0)
	err = l.Each(t.Context(), func(b *Batch) error { n += b.Read; return nil })
	if err == nil || !strings.Contains(err.Error(), "unexpected EOF") || n == 0 {
		t.Errorf("%d lines, then %v", n, err)
	}
}

// The reading ends when who takes the lines fails, and when nobody waits any more. Nothing stays behind.
func TestEachEndsEarly(t *testing.T) {
	name := logFile(t, []byte(combinedLog(50_000)))
	enough := errors.New("enough")
	l, err := Open(name, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Each(t.Context(), func(*Batch) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	again, err := Open(name, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if err := again.Each(ctx, func(*Batch) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Rotated logs are read in the order of their first request, however a shell names them.
func TestOpenAll(t *testing.T) {
	dir := t.TempDir()
	for name, hour := range map[string]int{"access.log": 15, "access.log.1": 14, "access.log.2": 13} {
		text := strings.ReplaceAll(combinedLog(3), ":13:", fmt.Sprintf(":%d:", hour))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	logs, err := OpenAll(names, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(logs)
	var order []string
	for _, l := range logs {
		order = append(order, filepath.Base(l.Name)+time.Unix(0, l.First).UTC().Format(" 15"))
	}
	if diff := cmp.Diff([]string{"access.log.2 13", "access.log.1 14", "access.log 15"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := OpenAll(append(names, filepath.Join(dir, "none")), OpenOptions{}); err == nil {
		t.Error("a log that is missing opens")
	}
}

// What several logs have is what all of them have.
func TestCommon(t *testing.T) {
	of := func(names ...string) Has {
		var logs []*Log
		for _, name := range names {
			f, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, &Log{Format: f})
		}
		return Common(logs)
	}
	if got := of("caddy", "combined"); got.Host || got.Duration || got.AllHeaders || !got.Status {
		t.Errorf("caddy and combined: %+v", got)
	}
	got := of("caddy", `{client} {time} "{request}" {header:X-Tenant} {header:Cookie} {duration}`)
	if !got.Header("X-Tenant") || got.Header("Cookie") || !got.Duration {
		t.Errorf("caddy and a pattern: %+v", got)
	}
}

// Standard input that nobody closes ends, when it is called off, with what has come: before its format is
// known, while it is read, and when who reads it gives up.
func TestInputIsCalledOff(t *testing.T) {
	for name, sent := range map[string]int{"nothing came": 0, "less than a head": 100, "many pieces": 50_000} {
		from, to := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		var come atomic.Int64
		go func() {
			size, _ := io.WriteString(to, combinedLog(sent))
			for come.Load() < int64(size) {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		l, err := open("-", newInput(ctx, from), OpenOptions{Read: &come})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read := int64(0)
		if err := l.Each(ctx, func(b *Batch) error { read += b.Read; return nil }); err != nil || read != int64(sent) {
			t.Errorf("%s: %d lines of %d, %v", name, read, sent, err)
		}
		_ = to.Close() // ends the goroutine that waits for more
	}
	from, to := io.Pipe()
	go func() { _, _ = io.WriteString(to, combinedLog(50_000)) }()
	l, err := open("-", newInput(t.Context(), from), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if err := l.Each(t.Context(), func(*Batch) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	_ = to.Close()
}
