package spoe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
)

// launch starts HAProxy with the configuration in dir, and ends it with the test.
func launch(t testing.TB, dir string, args ...string) *proctest.Process {
	t.Helper()
	program := proctest.Need(t, "haproxy")
	p, err := proctest.Start("haproxy", dir, program, append([]string{"-db", "-f", "main.cfg", "-f", "haproxy-spoe.cfg"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGKILL) }) // it may have ended
	return p
}

// mainConfig is what stands before the files that are shipped. A reload takes over the listeners by the
// socket.
const mainConfig = `
global
    stats socket unix@sock level admin expose-fd listeners
    stats timeout 2m
    hard-stop-after 20s
`

// A plan is an HAProxy with the shipped files.
type plan struct {
	agents []*house
	edit   func(string) string // of haproxy-spoe.cfg, if not nil
	ask    func(string) string // of weir-spoe.conf, if not nil
	// hasty waits for an agent as long as is shipped, 50 or 100 ms, and not for so long that a machine which
	// tests other things at the same time makes no difference.
	hasty bool
}

// patiently has HAProxy wait for agents.
var patiently = strings.NewReplacer("timeout processing 50ms", "timeout processing 20s", "timeout hello 100ms", "timeout hello 20s")

// failClosed takes the comment from the line that refuses where there was no decision.
func failClosed(config string) string {
	return strings.Replace(config, "    #http-request return status 503", "    http-request return status 503", 1)
}

// configure writes the shipped files to dir, with the addresses of a test, and returns where HAProxy will
// listen. It tells in X-Err of an error that the engine had.
func (p plan) configure(t testing.TB, dir, app string) (listen string) {
	t.Helper()
	listen = proctest.Free(t)
	config := shipped(t, "haproxy-spoe.cfg")
	var ours strings.Builder
	for i, h := range p.agents {
		fmt.Fprintf(&ours, "    server weir%d %s\n", i+1, h.addr)
	}
	for _, change := range [][2]string{
		{"bind :80\n", "bind " + listen + "\n    http-after-response set-header X-Err %[var(txn.weir.err)] if { var(txn.weir.err) -m found }\n"},
		{"config /etc/haproxy/weir-spoe.conf", "config weir-spoe.conf"},
		{"server app 127.0.0.1:3000", "server app " + app},
		{"    server weir1 127.0.0.1:9091\n", ours.String()},
	} {
		if strings.Count(config, change[0]) != 1 {
			t.Fatalf("deploy/haproxy-spoe.cfg: want %q once", change[0])
		}
		config = strings.Replace(config, change[0], change[1], 1)
	}
	config = edited(t, config, p.edit)
	questions := edited(t, shipped(t, "weir-spoe.conf"), p.ask)
	if !p.hasty {
		questions = patiently.Replace(questions)
	}
	for name, text := range map[string]string{"main.cfg": mainConfig, "haproxy-spoe.cfg": config, "weir-spoe.conf": questions} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return listen
}

// edited returns a file with an edit, which must change something, or none.
func edited(t testing.TB, text string, edit func(string) string) string {
	t.Helper()
	if edit == nil {
		return text
	}
	changed := edit(text)
	if changed == text {
		t.Fatal("an edit of a shipped file changes nothing")
	}
	return changed
}

func shipped(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
