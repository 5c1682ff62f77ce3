package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The request of a browser, and an answer of 1 KiB.
var (
	question = []byte(lines("GET /api/search?q=something HTTP/1.1", "Host: www.example.com",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language: en-US,en;q=0.5",
		"Accept-Encoding: gzip, deflate, br", "Cookie: session=0123456789abcdef0123456789abcdef", "", ""))
	kilobyte = bytes.Repeat([]byte("x"), 1024)
)

const benchConns = 16

// A lane is benchConns kept-alive connections to one server.
type lane struct {
	conns []net.Conn
	reads []*bufio.Reader
}

func newLane(b *testing.B, address string) *lane {
	l := new(lane)
	for range benchConns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		l.conns = append(l.conns, c)
		l.reads = append(l.reads, bufio.NewReader(c))
	}
	return l
}

// run asks n times on each connection, and returns the CPU time that the whole process used.
func (l *lane) run(b *testing.B, n int) time.Duration {
	var wait sync.WaitGroup
	began := cpu()
	for i := range l.conns {
		wait.Go(func() {
			for range n {
				if err := ask(l.conns[i], l.reads[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	return cpu() - began
}

// ask sends the request and reads the answer with as little ado as can be.
func ask(c net.Conn, r *bufio.Reader) error {
	if _, err := c.Write(question); err != nil {
		return err
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(n)))
		}
		if len(line) == 2 {
			_, err := io.CopyN(io.Discard, r, int64(length))
			return err
		}
	}
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A plainPool is an [httputil.BufferPool].
type plainPool struct{ bufferPool }

func (p *plainPool) Get() []byte  { return p.get()[:] }
func (p *plainPool) Put(b []byte) { p.put((*[bufferSize]byte)(b)) }

// plainAddress is where the reverse proxy listens that ours is compared with: net/http, ReverseProxy and a tuned transport.
func plainAddress(b *testing.B, upstream string) string {
	target, err := url.Parse(upstream)
	if err != nil {
		b.Fatal(err)
	}
	t := &http.Transport{MaxIdleConnsPerHost: maxIdle, DisableCompression: true}
	b.Cleanup(t.CloseIdleConnections)
	return serve(b, &httputil.ReverseProxy{Transport: t, BufferPool: new(plainPool), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}).Listener.Addr().String()
}

// BenchmarkCost measures what Weir costs beside what it is made of: pass-ratio is the CPU time of a
// proxied request over that of a plain ReverseProxy, each without client and upstream; refuse-ratio
// that of a refusal over an empty handler's answer, each with the client.
func BenchmarkCost(b *testing.B) {
	upstream := serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(kilobyte) }))
	empty := serve(b, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	generous := build(b, plan{yaml: "default: {limits: [{rate: 1000000000/1h}]}", upstreams: UpstreamOptions{Default: upstream.URL}})
	strict := build(b, plan{yaml: "default: {limits: [{rate: 0/1h}]}"})
	lanes := []*lane{newLane(b, upstream.Listener.Addr().String()), newLane(b, plainAddress(b, upstream.URL)), newLane(b, generous.address),
		newLane(b, empty.Listener.Addr().String()), newLane(b, strict.address)}
	rounds := make([][]float64, len(lanes))
	for b.Loop() {
		for i, l := range lanes { // in turns, so that the machine's moods meet all
			rounds[i] = append(rounds[i], float64(l.run(b, 20))/(20*benchConns))
		}
	}
	direct, plain, weir, empties, refused := median(rounds[0]), median(rounds[1]), median(rounds[2]), median(rounds[3]), median(rounds[4])
	b.ReportMetric((weir-direct)/(plain-direct), "pass-ratio")
	b.ReportMetric(refused/empties, "refuse-ratio")
	b.ReportMetric(weir-direct, "weir-ns")
	b.ReportMetric(plain-direct, "plain-ns")
	b.ReportMetric(refused, "refused-ns")
	b.ReportMetric(empties, "empty-ns")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkPass is a proxied request, to be profiled.
func BenchmarkPass(b *testing.B) {
	h := build(b, plan{yaml: "default: {limits: [{rate: 1000000000/1h}]}",
		upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(kilobyte) })})
	benchmark(b, h)
}

// BenchmarkRefuse is a refused request, to be profiled.
func BenchmarkRefuse(b *testing.B) {
	benchmark(b, build(b, plan{yaml: "default: {limits: [{rate: 0/1h}]}"}))
}

func benchmark(b *testing.B, h *house) {
	l := newLane(b, h.address)
	b.ReportAllocs()
	b.ResetTimer()
	l.run(b, b.N/benchConns+1)
}
