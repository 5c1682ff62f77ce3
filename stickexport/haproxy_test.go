package stickexport

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

const realConfig = `
global
    stats socket unix@sock level operator
    stats socket unix@admin level admin
    stats socket unix@user level user
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend web
    bind LISTEN
    http-request track-sc0 src table arrays
    http-request track-sc1 hdr(x-key) table strings
    http-request sc-inc-gpc(0,0)
    http-request sc-inc-gpc(1,0)
    http-request sc-inc-gpc(1,0)
    http-request return status 200
backend many
    stick-table type ipv6 size 1m expire 1h store http_req_cnt,http_req_rate(10m),gpc0
backend arrays
    stick-table type ip size 1k expire 1h store gpc(2),gpc_rate(2,10m)
backend strings
    stick-table type string len 64 size 1k store http_req_cnt,server_key
`

// haproxy runs a real one, and returns the folder of its sockets and where it listens.
func haproxy(t testing.TB) (dir, listen string) {
	t.Helper()
	program := proctest.Need(t, "haproxy")
	dir = t.TempDir()
	listen, err := proctest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "haproxy.cfg"), []byte(strings.Replace(realConfig, "LISTEN", listen, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := proctest.Start("haproxy", dir, program, "-db", "-f", "haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGKILL) }) // it may have ended
	for _, addr := range []string{listen, "unix:" + filepath.Join(dir, "sock"), "unix:" + filepath.Join(dir, "admin"), "unix:" + filepath.Join(dir, "user")} {
		if err := proctest.Await(proctest.Patience, func() error { return p.Listening(addr) }); err != nil {
			t.Fatal(err)
		}
	}
	return dir, listen
}

// fill puts n entries into the table many, some hundred in one command line: the i-th, of a random
// address, asks i times.
func fill(t testing.TB, dir string, n int) (addrs []string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for chunk := range slices.Chunk(make([]struct{}, n), 200) {
		var commands []string
		for range chunk {
			var b [16]byte
			b[0], b[1] = 0x20, 0x01
			for i := 2; i < 16; i++ {
				b[i] = byte(random.UintN(256))
			}
			addrs = append(addrs, netip.AddrFrom16(b).String())
			commands = append(commands, fmt.Sprintf("set table many key %s data.http_req_cnt %d", addrs[len(addrs)-1], len(addrs)))
		}
		c, err := net.Dial("unix", filepath.Join(dir, "admin"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, strings.Join(commands, ";")+"\n") // the answer tells
		answer, err := io.ReadAll(c)
		c.Close()
		if err != nil || len(strings.TrimSpace(string(answer))) > 0 {
			t.Fatalf("set table: %q, %v", answer, err)
		}
	}
	return addrs
}

// The top of 50,000 entries: the right one, quickly, and in memory that does not grow with the table.
func TestFiftyThousandEntries(t *testing.T) {
	const n = 50_000
	dir, _ := haproxy(t)
	addrs := fill(t, dir, n)
	r := reader(t, Options{Socket: filepath.Join(dir, "sock"), Table: "many", By: "http_req_cnt", Top: 3})
	want := []string{"1:" + addrs[n-1] + "=50000", "2:" + addrs[n-2] + "=49999", "3:" + addrs[n-3] + "=49998"}
	for _, what := range []string{"all that counts", "what is likely to belong to the top"} {
		before, began := allocated(), time.Now()
		got, err := r.Read(context.Background())
		took, used := time.Since(began), allocated()-before
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s, %d KiB allocated", what, took.Round(100*time.Microsecond), used>>10)
		if !slices.Equal(keys(got), want) || got.Used != n {
			t.Errorf("%s: %v of %d, want %v of %d", what, keys(got), got.Used, want, n)
		}
		if used > 4<<20 {
			t.Errorf("%s: %d bytes allocated, want at most 4 MiB", what, used)
		}
	}
}

// allocated is how many bytes were asked for so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestRealTables(t *testing.T) {
	dir, listen := haproxy(t)
	for _, key := range []string{`a b=c"d\e`, "plain", "plain"} {
		ask(t, listen, key)
	}
	read := func(socket string, o Options) string {
		o.Socket = filepath.Join(dir, socket)
		got, err := reader(t, o).Read(t.Context())
		if err != nil {
			return strings.ReplaceAll(err.Error(), dir+"/", "")
		}
		return got.By + " " + strings.Join(keys(got), " ")
	}
	tests := []struct {
		socket string
		o      Options
		want   string
	}{
		{"sock", Options{Table: "strings"}, `http_req_cnt 1:plain=2 2:a\ b\=c"d\\e=1`},
		{"sock", Options{Table: "arrays"}, "gpc0_rate 1:127.0.0.1=3"},
		{"sock", Options{Table: "arrays", By: "gpc0"}, "gpc0 1:127.0.0.1=3"},
		{"sock", Options{Table: "arrays", By: "gpc1_rate"}, "gpc1_rate 1:127.0.0.1=6"},
		{"sock", Options{Table: "many"}, " "},
		{"sock", Options{Table: "many", By: "http_req_cnt"}, "http_req_cnt "},
		{"sock", Options{Table: "none"}, "sock: show table none: no table none: want one of arrays, many, strings"},
		{"sock", Options{Table: "arrays", By: "conn_rate"}, "sock: table arrays does not store conn_rate: want one of gpc0, gpc1, gpc0_rate, gpc1_rate"},
		{"sock", Options{Table: "many", By: "conn_rate"}, "sock: table many does not store conn_rate"},
		{"user", Options{Table: "arrays"}, `user: show table arrays: HAProxy does not show entries on this socket: want "level operator" or "level admin" on its "stats socket" line`},
	}
	for _, tt := range tests {
		if got := read(tt.socket, tt.o); got != tt.want {
			t.Errorf("%s %+v:\n got %s\nwant %s", tt.socket, tt.o, got, tt.want)
		}
	}
}

// ask sends a request with a key.
func ask(t *testing.T, listen, key string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	c, err := d.Dial("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: %s\r\nConnection: close\r\n\r\n", key)
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Fatalf("%q, %v", answer, err)
	}
}
