// Package replicas_test proves what several replicas of Weir promise together, with real processes,
// real Redis servers and real outages.
package replicas_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what is embedded tells it of every refusal
	m.Run()
}

// patience is how long anything that must happen is waited for.
const patience = 30 * time.Second

// A service stands behind the replicas, and knows how many requests came through.
type service struct {
	*httptest.Server
	served atomic.Int64
}

func startService(t testing.TB) *service {
	s := new(service)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.served.Add(1)
	io.WriteString(w, "yes")
}

// basics is what every configuration begins with. Who is asking stands in X-Forwarded-For, so that a
// test has as many clients as it wants.
func basics(s *service) string {
	return "listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: \"" + s.URL + "\"\nclient: {from_right: 1}\n"
}

// A replica is a process of `weir run`.
type replica struct {
	url, admin string

	t      testing.TB
	cmd    *exec.Cmd
	output sync.WaitGroup

	mu   sync.Mutex
	logs bytes.Buffer
}

// startReplica starts a process with a configuration and returns once it serves. It is killed when the
// test ends, if not before.
func startReplica(t testing.TB, yaml string) *replica {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, cmd: exec.Command(proctest.Weir(t), "run", "-c", file)}
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	where := make(chan map[string]any, 1)
	r.output.Go(func() { r.follow(stderr, where) })
	select {
	case fields := <-where:
		if fields == nil {
			t.Fatalf("weir ended at once:\n%s", r.log())
		}
		r.url, r.admin = fmt.Sprint("http://", fields["listen"]), fmt.Sprint("http://", fields["admin"])
	case <-time.After(patience):
		t.Fatalf("weir does not run:\n%s", r.log())
	}
	return r
}

// startReplicas starts n processes with the same configuration.
func startReplicas(t testing.TB, n int, yaml string) (all []*replica, urls []string) {
	t.Helper()
	for range n {
		r := startReplica(t, yaml)
		all, urls = append(all, r), append(urls, r.url)
	}
	return all, urls
}

// follow keeps the lines that the process writes, and sends the fields of the first that says where it
// serves, or nil if it ends.
func (r *replica) follow(stderr io.Reader, where chan<- map[string]any) {
	defer close(where)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		r.mu.Lock()
		fmt.Fprintln(&r.logs, lines.Text())
		r.mu.Unlock()
		var fields map[string]any
		if strings.Contains(lines.Text(), "weir is running") && json.Unmarshal(lines.Bytes(), &fields) == nil {
			where <- fields
		}
	}
}

func (r *replica) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logs.String()
}

// kill ends the process at once. Killing it twice is no error.
func (r *replica) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended
	r.output.Wait()
	_ = r.cmd.Wait() // how does not matter
	r.cmd = nil
}

// metrics are the values of all series, and under a name without labels the sum of all that have it.
func (r *replica) metrics() map[string]float64 {
	r.t.Helper()
	res, err := http.Get(r.admin + "/metrics")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.log())
	}
	defer res.Body.Close()
	return seriesOf(res.Body)
}

// seriesOf reads the Prometheus text format.
func seriesOf(text io.Reader) map[string]float64 {
	all := map[string]float64{}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		at := max(0, strings.LastIndexByte(lines.Text(), ' ')) // labels may have spaces in them
		series, value := lines.Text()[:at], strings.TrimSpace(lines.Text()[at:])
		v, _ := strconv.ParseFloat(value, 64) // comments are not asked for
		name, _, labels := strings.Cut(series, "{")
		all[series] += v
		if labels {
			all[name] += v
		}
	}
	return all
}

// metric is one of them.
func (r *replica) metric(series string) float64 {
	r.t.Helper()
	return r.metrics()[series]
}

// sum is the sum of a metric of all replicas.
func sum(all []*replica, series string) (total float64) {
	for _, r := range all {
		total += r.metric(series)
	}
	return total
}

// eventually waits until is, at most for d, and returns how long that was.
func eventually(t testing.TB, d time.Duration, what string, is func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > d {
			t.Errorf("after %v not yet: %s", d, what)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}
