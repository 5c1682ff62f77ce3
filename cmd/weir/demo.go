package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/app"
)

// demoPolicy is what the tour runs. The demo plays the part of the proxy in front: it connects from
// loopback and appends the client's address, as nginx would.
const demoPolicy = `# Weir's demo. Edit and save this file while the demo runs: Weir follows.
listen: %q
admin: %q
upstream: %q
data_dir: %q

client:
  path: [{name: edge, cidrs: [127.0.0.1/32]}]   # one proxy in front, which appends to X-Forwarded-For

rules:
  - name: search
    path: /search
    limits: [{rate: 20/1m, per: client}]
  - name: exact
    path: /exact
    limits: [{rate: 100/1m, per: client}]
  - name: burst
    path: /burst
    limits: [{rate: 2/2s, per: client}]
  - name: trial
    path: /trial
    mode: shadow                                  # counted and reported, refuses nothing
    limits: [{rate: 5/1m, per: client}]

default:
  limits: [{rate: 300/1m, per: client}]
`

func demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A tour: a sample service, Weir before it, a little traffic on loopback",
		Args:  cobra.NoArgs,
		RunE: atRunTime(func(cmd *cobra.Command, _ []string) error {
			d, err := startDemo(cmd.Context(), cmd.OutOrStdout())
			if err != nil {
				return err
			}
			err = d.tour(cmd.Context())
			if err == nil && !once {
				d.invite()
				<-cmd.Context().Done()
			}
			if cmd.Context().Err() != nil {
				err = nil // a stop that was asked for is no failure
			}
			return errors.Join(err, d.stop())
		}),
	}
	cmd.Flags().BoolVar(&once, "once", false, "stop after the tour")
	return cmd
}

// A demo is a sample service with Weir before it.
type demo struct {
	out           io.Writer
	dir           string
	service       *http.Server
	front, admin  string // host:port
	stopWeir      context.CancelFunc
	weirDone      chan error
	client        *http.Client
	serviceCalled atomic.Int64
}

func startDemo(ctx context.Context, out io.Writer) (_ *demo, err error) {
	d := &demo{out: out, client: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	if d.dir, err = os.MkdirTemp("", "weir-demo-"); err != nil {
		return d, err
	}
	service, err := d.startService()
	if err != nil {
		return d, err
	}
	if d.front, d.admin, err = freeAddresses(); err != nil {
		return d, err
	}
	policy := filepath.Join(d.dir, "weir.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, demoPolicy, d.front, d.admin, "http://"+service, filepath.Join(d.dir, "data")), 0o600); err != nil {
		return d, err
	}
	log, err := os.Create(filepath.Join(d.dir, "weir.log"))
	if err != nil {
		return d, err
	}
	a, err := app.Start(app.Options{Config: policy, Log: log})
	if err != nil {
		return d, errors.Join(err, log.Close())
	}
	ctx, d.stopWeir = context.WithCancel(context.WithoutCancel(ctx))
	d.weirDone = make(chan error, 1)
	go func() { d.weirDone <- errors.Join(a.Run(ctx), log.Close()) }()
	fmt.Fprintf(out, "A sample service      http://%s\nWeir before it        http://%s\nDashboard             http://%s/\nMetrics               http://%s/metrics\nPolicy and log        %s\n\n",
		service, d.front, d.admin, d.admin, d.dir)
	return d, nil
}

// startService serves a page that says what reached it, and returns its address.
func (d *demo) startService() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	d.service = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.serviceCalled.Add(1)
		fmt.Fprintf(w, "hello from the service; the client is %s\n", r.Header.Get("X-Forwarded-For"))
	})}
	go d.service.Serve(l) // ends by stop
	return l.Addr().String(), nil
}

// freeAddresses returns two loopback addresses that nobody listens on.
func freeAddresses() (front, admin string, err error) {
	a, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer a.Close()
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer b.Close()
	return a.Addr().String(), b.Addr().String(), nil
}

// stop ends everything that was started and removes what was written.
func (d *demo) stop() error {
	var errs []error
	if d.stopWeir != nil {
		d.client.CloseIdleConnections()
		d.stopWeir()
		errs = append(errs, <-d.weirDone)
	}
	if d.service != nil {
		errs = append(errs, d.service.Close())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// ask sends one request as the proxy in front would, for a client that sent forged of its own, and
// returns the answer with its body drained.
func (d *demo) ask(ctx context.Context, path, forged, client string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.front+path, nil)
	if err != nil {
		return nil, err
	}
	chain := client
	if forged != "" {
		chain = forged + ", " + client
	}
	r.Header.Set("X-Forwarded-For", chain)
	res, err := d.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res, err
}

// An answers counts answers by what became of the request.
type answers struct{ passed, refused int }

// many asks n times, in parallel where wide is more than 1, and counts the answers. forge makes up
// what the client sends of its own in the i-th request.
func (d *demo) many(ctx context.Context, n, wide int, path, client string, forge func(i int) string) (answers, error) {
	var a answers
	var failed error
	var mu sync.Mutex
	var asking sync.WaitGroup
	next := make(chan int)
	for range wide {
		asking.Go(func() {
			for i := range next {
				res, err := d.ask(ctx, path, forge(i), client)
				mu.Lock()
				switch {
				case err != nil:
					failed = err
				case res.StatusCode == http.StatusOK:
					a.passed++
				case res.StatusCode == http.StatusTooManyRequests:
					a.refused++
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
	return a, failed
}

func honest(int) string { return "" }

func forged(i int) string { return fmt.Sprintf("198.18.%d.%d", i/250, i%250+1) }

// tour shows the main promises, one after the other.
func (d *demo) tour(ctx context.Context) error {
	for _, stop := range []func(context.Context) error{d.rightClient, d.neighbour, d.exactCount, d.trueWait, d.shadow} {
		if err := stop(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) rightClient(ctx context.Context) error {
	a, err := d.many(ctx, 30, 1, "/search", "203.0.113.7", forged)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "1. The right client. 203.0.113.7 asks 30 times against 20/1m, with another forged\n"+
		"   X-Forwarded-For each time: %d passed, %d refused.\n\n", a.passed, a.refused)
	return nil
}

func (d *demo) neighbour(ctx context.Context) error {
	a, err := d.many(ctx, 5, 1, "/search", "198.51.100.4", honest)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "2. Not everybody in one bucket. Its neighbour behind the same proxy asks 5 times: %d passed.\n\n", a.passed)
	return nil
}

func (d *demo) exactCount(ctx context.Context) error {
	before := d.serviceCalled.Load()
	a, err := d.many(ctx, 1000, 64, "/exact", "203.0.113.7", honest)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "3. The right count. 1,000 requests, 64 at a time, against 100/1m: %d passed, %d refused;\n"+
		"   the service saw %d.\n\n", a.passed, a.refused, d.serviceCalled.Load()-before)
	return nil
}

func (d *demo) trueWait(ctx context.Context) error {
	if _, err := d.many(ctx, 20, 1, "/burst", "203.0.113.7", honest); err != nil {
		return err
	}
	res, err := d.ask(ctx, "/burst", "", "203.0.113.7")
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "4. The right answer. After hammering a limit of 2/2s:\n   %s\n", res.Status)
	for _, name := range []string{"Content-Type", "Retry-After", "RateLimit-Policy", "RateLimit"} {
		fmt.Fprintf(d.out, "   %s: %s\n", name, res.Header.Get(name))
	}
	wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil {
		return fmt.Errorf("Retry-After of a refusal: %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(wait) * time.Second):
	}
	if res, err = d.ask(ctx, "/burst", "", "203.0.113.7"); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "   and after waiting as told: %s\n\n", res.Status)
	return nil
}

func (d *demo) shadow(ctx context.Context) error {
	a, err := d.many(ctx, 8, 1, "/trial", "203.0.113.7", honest)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "5. Trying a limit before it bites. 8 requests against a shadow limit of 5/1m: %d passed;\n"+
		"   the metrics and the log say what it would have refused.\n\n", a.passed)
	return nil
}

// invite says what to try while the demo runs on.
func (d *demo) invite() {
	fmt.Fprintf(d.out, "Try it yourself:\n"+
		"   curl -i http://%s/search -H 'X-Forwarded-For: 203.0.113.9'\n"+
		"   weir top --admin http://%s\n"+
		"   edit %s and save it\n\nCtrl-C stops the demo.\n", d.front, d.admin, filepath.Join(d.dir, "weir.yaml"))
}
