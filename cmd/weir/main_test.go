package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// TestScripts runs the command line as a shell would. Beyond testscript's own commands there are
//
//	code N COMMAND...      wants the command to end with that exit code
//	free NAME...           sets variables to loopback addresses that nobody listens on
//	serve NAME             sets a variable to the address of a service that says yes, and hangs at /hang
//	begin URL              asks, and does not wait for the answer
//	taken NAME             sets a variable to an address that somebody listens on
//	get URL STATUS [TEXT]  asks until the answer has that HTTP status, and the text in header or body
//	await GLOB             waits until there is such a file
//	empty DIR              wants nothing in the folder
//	nobody TEXT            wants no process, but for the test, to have the text among its arguments
//	signal TERM|HUP        sends a signal to what was last started in the background
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv("TMPDIR", e.WorkDir+"/tmp")
			bin, _, _ := strings.Cut(e.Getenv("PATH"), string(os.PathListSeparator)) // where weir is, and nothing else
			e.Setenv("BIN", bin)
			return os.Mkdir(e.WorkDir+"/tmp", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"begin": begin, "code": code, "free": free, "serve": serve, "taken": taken, "get": get, "await": await, "empty": empty, "nobody": nobody, "signal": send,
		},
		// root may read what nobody may.
		Condition:          func(name string) (bool, error) { return name == "root" && os.Geteuid() == 0, nil },
		RequireUniqueNames: true,
	})
}

func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func free(ts *testscript.TestScript, _ bool, names []string) {
	given := map[string]bool{}
	for _, name := range names {
		addr := ""
		for addr == "" || given[addr] { // they differ
			var err error
			addr, err = proctest.QuietAddress()
			ts.Check(err)
		}
		given[addr] = true
		ts.Setenv(name, addr)
	}
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		io.WriteString(w, "yes")
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.Listener.Addr().String())
}

func begin(ts *testscript.TestScript, _ bool, args []string) {
	ctx, stop := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	ts.Check(err)
	var asking sync.WaitGroup
	asking.Go(func() {
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
		}
	})
	ts.Defer(func() { stop(); asking.Wait() })
}

func taken(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	var got string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		res, err := http.Get(args[0])
		if err != nil {
			if got = err.Error(); neg {
				return
			}
			continue
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		var text strings.Builder
		_ = res.Header.Write(&text)
		got = res.Status + "\n" + text.String() + string(body)
		if !neg && res.StatusCode == want && strings.Contains(got, strings.Join(args[2:], " ")) {
			return
		}
	}
	ts.Fatalf("the last answer was %s", got)
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if found, err := filepath.Glob(ts.MkAbs(args[0])); err != nil || len(found) > 0 {
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("no %s after 60 s", args[0])
}

func empty(ts *testscript.TestScript, _ bool, args []string) {
	files, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) > 0 {
		ts.Fatalf("%v is left in %s", files, args[0])
	}
}

func nobody(ts *testscript.TestScript, _ bool, args []string) {
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	ts.Check(err)
	for _, name := range processes {
		line, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(line), args[0]) { // it may have ended since
			ts.Fatalf("%s is left: %q", name, line)
		}
	}
}

func send(ts *testscript.TestScript, _ bool, args []string) {
	jobs := ts.BackgroundCmds()
	ts.Check(jobs[len(jobs)-1].Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]))
}
