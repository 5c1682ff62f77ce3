package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/timed"
)

// slowhttptest in its three modes, with 200 connections: other users see no refusal and no error meanwhile,
// and the slow ones are cut when the configuration says.
func TestSlowHTTP(t *testing.T) {
	timed.Only(t)
	program := proctest.Need(t, "slowhttptest")
	large := strings.Repeat("a large answer ", 1<<20)
	h := build(t, plan{
		yaml: basics + "default: {limits: []}\nserver: {header_timeout: 2s, idle_timeout: 4s}\nwaf: {body_timeout: 2s}\n",
		service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/large" {
				io.WriteString(w, large)
			}
		}),
	})
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	quiet := open()
	modes := map[string][]string{
		"slow headers": {"-H", "-u", h.url("/")},
		"slow bodies":  {"-B", "-s", "8192", "-u", h.url("/")},
		"slow readers": {"-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32", "-u", h.url("/large")},
	}
	for name, args := range modes {
		t.Run(name, func(t *testing.T) {
			load := underLoad(t, h.url("/ordinary"))
			began, over := time.Now(), make(chan string, 1)
			go func() {
				out, err := exec.Command(program, append(args, "-c", "200", "-r", "200", "-i", "1", "-l", "14", "-p", "2")...).CombinedOutput()
				over <- fmt.Sprintf("%s\n%v", out, err)
			}()
			load.flows(50)
			eventually(t, "the attack", func() bool { return open() > quiet+150 })
			eventually(t, "its end", func() bool { return open() < quiet+60 })
			took := time.Since(began)
			if took > 13*time.Second {
				t.Errorf("it took %v", took)
			}
			out := <-over
			load.end()
			t.Logf("every place is free after %v", took.Round(100*time.Millisecond))
			if !strings.HasSuffix(out, "<nil>") || strings.Contains(out, "service unavailable") {
				t.Errorf("slowhttptest: %s", tail(out))
			}
			// Who reads slowly still has what the system holds for him; nobody else may go on.
			if name != "slow readers" && !strings.Contains(out, "No open connections left") {
				t.Errorf("connections were left:\n%s", tail(out))
			}
		})
	}
}

// tail returns the last lines of text.
func tail(text string) string { return text[max(0, len(text)-1500):] }
