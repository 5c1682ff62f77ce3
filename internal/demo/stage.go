package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// A stage is a sample service with Weir before it. The demo plays the part of the proxy in front: it
// connects from loopback, appends the client's address as nginx would, and writes the access log.
type stage struct {
	voice   voice
	program string
	dir     string // all that is written is here
	service *service
	weir    *replica // goes on after the tour
	proxy   *http.Client
	log     *os.File // the proxy's, in combined format
	logged  atomic.Int64
	unkept  []string // of the promise that is being shown
	inPart  bool     // likewise: that it is, for want of a Redis
}

// patience bounds whatever is waited for: a request, a start, a change. It is that of a machine with much else to do.
const patience = time.Minute

func openStage(ctx context.Context, o Options) (_ *stage, err error) {
	s := &stage{
		voice:   voice{out: o.Out, terminal: o.Terminal, plain: o.Plain},
		program: o.Program,
		proxy: &http.Client{
			Timeout:   patience,
			Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64},
		},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "weir-demo-"); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(s.path("access.log")); err != nil {
		return nil, err
	}
	if s.service, err = startService(); err != nil {
		return nil, err
	}
	s.weir, err = startReplica(ctx, s.dir, "weir", s.policy(notSaid))
	return s, err
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// close ends everything that was started and removes what was written.
func (s *stage) close() error {
	var errs []error
	s.proxy.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	if s.weir != nil {
		errs = append(errs, s.weir.close())
	}
	if s.service != nil {
		errs = append(errs, s.service.close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// greet says what is where.
func (s *stage) greet() {
	fmt.Fprintf(s.voice.out, "A sample service, Weir before it, and traffic on loopback.\n\n"+
		"   Weir       http://%s\n   Dashboard  http://%s/\n   Files      %s\n", s.weir.front, s.weir.admin, s.dir)
}

// invite says what to try while the demo runs on.
func (s *stage) invite() {
	fmt.Fprintf(s.voice.out, "\nWeir goes on. See what it saw: http://%s/\n\nTry it yourself:\n", s.weir.admin)
	for _, try := range []string{
		"curl -i http://" + s.weir.front + "/search -H 'X-Forwarded-For: 203.0.113.99'",
		s.program + " top --admin http://" + s.weir.admin,
		s.program + " explain -c " + s.weir.file + " http://example.com/search",
		s.program + " replay -c " + s.path("strict.yaml") + " " + s.log.Name(),
		"edit " + s.weir.file + " and save it",
	} {
		fmt.Fprintf(s.voice.out, "   %s\n", try)
	}
	fmt.Fprint(s.voice.out, "\nCtrl-C stops the demo.\n")
}

// A service says who it believes asked.
type service struct {
	server *http.Server
	addr   string
	ended  chan error
	called atomic.Int64
}

func startService() (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{addr: l.Addr().String(), ended: make(chan error, 1)}
	s.server = &http.Server{ReadHeaderTimeout: patience, Handler: s}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.called.Add(1)
	fmt.Fprintf(w, "hello from the service; the client is %s\n", r.Header.Get("X-Forwarded-For"))
}

func (s *service) close() error {
	err := s.server.Close()
	<-s.ended
	return err
}

// A visit is a request as it comes to the proxy.
type visit struct {
	to     string // host:port behind the proxy; empty: the stage's Weir
	path   string
	from   string // the client's address
	forged string // what the client sends as X-Forwarded-For
	agent  string
}

// An answer is what a visitor gets.
type answer struct {
	status int
	line   string // the status with its words
	header http.Header
	waited time.Duration
}

// ask passes a visit on as the proxy would, and writes the access log of the stage's Weir.
func (s *stage) ask(ctx context.Context, v visit) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(v.to, s.weir.front)+v.path, nil)
	if err != nil {
		return answer{}, err
	}
	chain := v.from
	if v.forged != "" {
		chain = v.forged + ", " + v.from
	}
	agent := cmp.Or(v.agent, "demo/1")
	r.Header.Set("X-Forwarded-For", chain)
	r.Header.Set("User-Agent", agent)
	began := time.Now()
	res, err := s.proxy.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	size, err := io.Copy(io.Discard, res.Body)
	if err == nil && v.to == "" {
		s.logged.Add(1)
		_, err = fmt.Fprintf(s.log, "%s - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", v.from, time.Now().Format("02/Jan/2006:15:04:05 -0700"), v.path, res.StatusCode, size, agent)
	}
	return answer{res.StatusCode, res.Status, res.Header, time.Since(began)}, err
}

// A tally is what became of many visits.
type tally struct {
	passed, refused, other int
	slowest                time.Duration
}

// many asks n times, wide at a time, and counts what became of it.
func (s *stage) many(ctx context.Context, n, wide int, visits func(i int) visit) (tally, error) {
	var t tally
	var failed error
	var mu sync.Mutex
	var asking sync.WaitGroup
	next := make(chan int)
	for range wide {
		asking.Go(func() {
			for i := range next {
				a, err := s.ask(ctx, visits(i))
				mu.Lock()
				t.add(a)
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	asking.Wait()
	return t, failed
}

func (t *tally) add(a answer) {
	switch a.status {
	case http.StatusOK:
		t.passed++
	case http.StatusTooManyRequests:
		t.refused++
	default:
		t.other++
	}
	t.slowest = max(t.slowest, a.waited)
}

// await waits until done says so.
func await(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(glance):
		}
	}
}

// glance is how often something that is waited for is looked at.
const glance = 10 * time.Millisecond
