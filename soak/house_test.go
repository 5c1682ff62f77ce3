package soak_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/racing"
)

// patience is how long anything that must happen is waited for.
const patience = 2 * time.Minute

// A house is a process of `weir run`.
type house struct {
	file         string // its configuration
	front, admin string // addresses
	log          logbook

	t      testing.TB
	cmd    *exec.Cmd
	client http.Client // of the admin API
	output sync.WaitGroup
}

// startHouse starts the program with a configuration and returns once it serves.
func startHouse(t testing.TB, yaml string) *house {
	t.Helper()
	h := &house{t: t, file: filepath.Join(t.TempDir(), "weir.yaml"), client: http.Client{Timeout: patience}}
	if err := os.WriteFile(h.file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var flags []string // as the tests are built
	if racing.On {
		flags = []string{"-race"}
	}
	program, err := proctest.Build(flags...)
	if err != nil {
		t.Fatal(err)
	}
	h.cmd = exec.Command(program, "run", "-c", h.file)
	stderr, err := h.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	h.log.began = time.Now()
	serves := make(chan map[string]any, 1)
	h.output.Go(func() { h.log.follow(stderr, serves) })
	select {
	case fields := <-serves:
		if fields == nil {
			t.Fatalf("weir ended at once:\n%s", h.log.String())
		}
		h.front, h.admin = fmt.Sprint(fields["listen"]), fmt.Sprint(fields["admin"])
	case <-time.After(patience):
		t.Fatalf("weir does not run:\n%s", h.log.String())
	}
	return h
}

// stop ends the process as a service manager does, and returns how it ended.
func (h *house) stop() error {
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // Wait says if it had ended
	force := time.AfterFunc(patience, func() { _ = h.cmd.Process.Kill() })
	defer force.Stop()
	h.output.Wait()
	err := h.cmd.Wait()
	h.cmd = nil
	return err
}

func (h *house) kill() {
	if h.cmd == nil {
		return
	}
	_ = h.cmd.Process.Kill() // it may have ended
	h.output.Wait()
	_ = h.cmd.Wait() // how does not matter
	h.cmd = nil
}

// descriptors is how many files the process has open.
func (h *house) descriptors() int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.cmd.Process.Pid))
	if err != nil {
		h.t.Error(err)
	}
	return len(all)
}

// api asks the admin API, and returns the HTTP status, or 0 if there was no answer.
func (h *house) api(method, path, body string, into any) int {
	req, err := http.NewRequest(method, "http://"+h.admin+path, strings.NewReader(body))
	if err != nil {
		h.t.Error(err)
		return 0
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := h.client.Do(req)
	if err != nil {
		h.t.Errorf("admin API: %v", err)
		return 0
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && into != nil && res.StatusCode < 300 {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		h.t.Errorf("admin API: %s: %v", path, err)
	}
	return res.StatusCode
}

// A series holds the values of all metrics, and under a name without labels the sum of all that have it.
type series map[string]float64

func (h *house) metrics() series {
	res, err := h.client.Get("http://" + h.admin + "/metrics")
	if err != nil {
		h.t.Errorf("metrics: %v", err)
		return series{}
	}
	defer res.Body.Close()
	all := series{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || lines.Text()[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		if err != nil {
			h.t.Errorf("metrics: %s", lines.Text())
		}
		name, _, labels := strings.Cut(lines.Text()[:at], "{")
		all[lines.Text()[:at]] += v
		if labels {
			all[name] += v
		}
	}
	return all
}

// decisions is how often a rule ended with an action.
func (s series) decisions(rule, action string) int {
	return int(s[fmt.Sprintf("weir_decisions_total{action=%q,front=\"proxy\",rule=%q}", action, rule)])
}

// labelled are the series of a metric, with their labels.
func (s series) labelled(name string) string {
	var b strings.Builder
	for _, each := range slices.Sorted(maps.Keys(s)) {
		if labels, ok := strings.CutPrefix(each, name+"{"); ok && s[each] > 0 {
			fmt.Fprintf(&b, " %s %v", strings.TrimSuffix(labels, "}"), s[each])
		}
	}
	return b.String()
}

// A logbook counts the lines that a process writes by what they say, and keeps what is no refusal.
type logbook struct {
	began time.Time

	mu    sync.Mutex
	lines int
	says  map[string]int // by message; of a line that is no JSON, the line
	kept  []string
}

const (
	mostKept    = 5000    // lines of a log, and messages that are told apart
	longestLine = 1 << 20 // bytes; a panic's has its whole stack
)

// follow reads to the end, and sends the fields of the line that says where the process serves, or nil if it ends.
func (l *logbook) follow(from io.Reader, serves chan<- map[string]any) {
	defer close(serves)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var fields map[string]any
		says := lines.Text()
		if json.Unmarshal(lines.Bytes(), &fields) == nil {
			says = fmt.Sprint(fields["msg"])
		}
		l.add(says, lines.Text())
		if says == "weir is running" {
			serves <- fields
		}
	}
}

func (l *logbook) add(says, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	if l.says == nil {
		l.says = map[string]int{}
	}
	if len(l.says) < mostKept {
		l.says[says]++
	}
	if says != refusalLine && len(l.kept) < mostKept {
		l.kept = append(l.kept, line)
	}
}

// count is how many lines say that.
func (l *logbook) count(says string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.says[says]
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.kept, "\n")
}
