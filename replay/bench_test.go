package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/replay/accesslog"
)

// generate writes n lines of nginx combined, so many of a second, of that many clients: each at least
// once while there are lines, and some of them far more often than others.
func generate(w io.Writer, n, perSecond, clients int) error {
	out := bufio.NewWriterSize(w, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	often := rand.NewZipf(r, 1.05, 10, uint64(clients-1))
	paths := []string{"/", "/api/search?q=shoes&page=2", "/api/users/%d", "/static/app.3f2a9c1d.js", "/login", "/products/%d/reviews", "/cart"}
	agents := []string{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36", "curl/8.5.0"}
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		c := uint64(i)
		if i >= clients {
			c = often.Uint64()
		}
		path := paths[r.IntN(len(paths))]
		if path[len(path)-1] == 'd' || path[len(path)-1] == 's' && path[1] == 'p' {
			path = fmt.Sprintf(path, r.IntN(100_000))
		}
		status := 200
		if r.IntN(20) == 0 {
			status = 404
		}
		_, err := fmt.Fprintf(out, "%d.%d.%d.%d - - [%s] \"GET %s HTTP/1.1\" %d %d \"https://example.com/\" \"%s\"\n", 11+c>>24, c>>16&255, c>>8&255, c&255,
			start.Add(time.Duration(i/perSecond)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), path, status, r.IntN(50_000), agents[r.IntN(len(agents))])
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// usual is a policy of the usual size: two or three counters a request.
const usual = `
limits: [{name: site, rate: 600/1m, per: ip}]
rules:
  - {name: login, path: /login, limits: [{rate: 20/1m}]}
  - {name: search, path: /api/search, limits: [{rate: 10/1s, burst: 20, algorithm: token_bucket}, {rate: 5000/1h}]}
  - {name: static, path: /static/, exempt: true}
`

// replayFile replays one log and returns how many lines it has.
func replayFile(tb testing.TB, name string, o Options) int64 {
	l, err := accesslog.Open(name, accesslog.OpenOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	o.Has = l.Format.Has
	r := New(o)
	defer r.Close()
	if err := r.Read(context.Background(), l); err != nil {
		tb.Fatal(err)
	}
	return r.Report(false).Lines.Decided
}

// BenchmarkReplay replays 500,000 lines of 20,000 clients. make bench sets weir replay beside GoAccess.
func BenchmarkReplay(b *testing.B) {
	const lines = 500_000
	name := filepath.Join(b.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(generate(f, lines, 500, 20_000), f.Close()); err != nil {
		b.Fatal(err)
	}
	p := Policy{Policy: compile(b, usual)}
	for b.Loop() {
		replayFile(b, name, Options{Policy: p})
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// A log of a million clients is replayed in less than 300 MB, however long it is: 10 GB are the same as
// these 260 MB, since nothing grows with the lines.
func TestBoundedMemory(t *testing.T) {
	racing.Skip(t)
	const lines, clients, most = 1_500_000, 1_000_000, 300 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(40)) // as weir replay does
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	written := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err == nil {
			err = generate(f, lines, 2000, clients)
			_ = f.Close() // a pipe
		}
		written <- err
	}()
	runtime.GC()
	var peak, early uint64
	n := 0
	o := Options{Policy: Policy{Policy: compile(t, usual)}, Decided: func(*accesslog.Line, Verdict) {
		if n++; n%50_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.Sys-m.HeapReleased)
			if n == clients {
				early = m.HeapAlloc
			}
		}
	}}
	got := replayFile(t, name, o)
	if err := <-written; err != nil || got != lines {
		t.Fatalf("%d lines, %v", got, err)
	}
	t.Logf("at most %d MB, %d MB in use after a million clients", peak>>20, early>>20)
	if peak > most {
		t.Errorf("%d MB are in use at once, want at most %d", peak>>20, uint64(most)>>20)
	}
}

// What is in use does not grow with the lines: once every client has been seen, three times as many lines
// take no more.
func TestMemoryIsFlat(t *testing.T) {
	racing.Skip(t)
	const lines, clients = 300_000, 5_000
	name := filepath.Join(t.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(generate(f, lines, 500, clients), f.Close()); err != nil {
		t.Fatal(err)
	}
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var quarter, whole uint64
	n := 0
	replayFile(t, name, Options{Policy: Policy{Policy: compile(t, usual)}, Decided: func(*accesslog.Line, Verdict) {
		switch n++; n {
		case lines / 4:
			quarter = inUse()
		case lines * 9 / 10: // later the window is being emptied
			whole = inUse()
		}
	}})
	t.Logf("%d KB after a quarter, %d KB at the end", quarter>>10, whole>>10)
	if whole > quarter+quarter/5 {
		t.Errorf("%d KB are in use after a quarter, and %d KB at the end", quarter>>10, whole>>10)
	}
}
