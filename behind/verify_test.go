package behind_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/verify"
)

// An errand is one run of weir verify, and what it must find.
type errand struct {
	name    string
	proxies []proxy
	client  string // the client section that is judged
	want    finding
}

// A finding is the part of a report that a test names.
type finding struct {
	Does     string
	Appended int
	Right    bool
	Believed string
	Paste    string
	Exit     int
}

const (
	atOne  = "client:\n  from_right: 1\n  peers: [127.0.0.1/32]\n"
	atTwo  = "client:\n  from_right: 2\n  peers: [127.0.0.1/32]\n"
	realIP = "client:\n  header: X-Real-Ip\n  peers: [127.0.0.1/32]\n"
)

var (
	overwriting = replacing("$proxy_add_x_forwarded_for", "$remote_addr")
	silent      = without("proxy_set_header X-Forwarded-For")
)

// bareOfNames is an nginx that says nothing of its clients.
func bareOfNames(config string) string { return without("proxy_set_header X-Real-IP")(silent(config)) }

// errands are the proxies that we know, told to do what is asked of them and what is not.
var errands = []errand{
	{"nothing between", nil, "", finding{verify.Direct, 0, true, "", "client:\n  path: []\n", 0}},
	{"nothing between, and a proxy is expected", nil, "{from_right: 1}", finding{verify.Direct, 0, false, "X-Forwarded-For", "client:\n  path: []\n", 1}},
	{"nginx", line("nginx"), "{path: [nginx]}", finding{verify.Appends, 1, true, "", atOne, 0}},
	{"nginx, and none is expected", line("nginx"), "", finding{verify.Appends, 1, false, "", atOne, 0}},
	{"nginx, a number too high", line("nginx"), "{from_right: 2}", finding{verify.Appends, 1, false, "X-Forwarded-For", atOne, 1}},
	{"nginx overwriting", []proxy{{kind: "nginx", edit: overwriting}}, "{from_right: 1}", finding{verify.Overwrites, 1, true, "", atOne, 0}},
	{"nginx overwriting, a number too high", []proxy{{kind: "nginx", edit: overwriting}}, "{from_right: 2}", finding{verify.Overwrites, 1, false, "", atOne, 0}},
	{"nginx not appending", []proxy{{kind: "nginx", edit: silent}}, "{from_right: 1}", finding{verify.PassesOn, 0, false, "X-Forwarded-For", realIP, 1}},
	{"nginx not appending, another header", []proxy{{kind: "nginx", edit: silent}}, "{header: X-Real-IP, peers: [private]}", finding{verify.PassesOn, 0, true, "", realIP, 0}},
	{"nginx that says nothing", []proxy{{kind: "nginx", edit: bareOfNames}}, "", finding{verify.PassesOn, 0, false, "", "", 0}},
	{"nginx, a header that it passes on", line("nginx"), "{header: CF-Connecting-IP, peers: [private]}", finding{verify.Appends, 1, false, "Cf-Connecting-Ip", atOne, 1}},
	{"haproxy", line("haproxy"), "{path: [haproxy]}", finding{verify.Appends, 1, true, "", atOne, 0}},
	{"caddy", line("caddy"), "{path: [caddy]}", finding{verify.Overwrites, 1, true, "", atOne, 0}},
	{"nginx, haproxy", line("nginx", "haproxy"), "{path: [nginx, haproxy]}", finding{verify.Appends, 2, true, "", atTwo, 0}},
	{"haproxy, nginx", line("haproxy", "nginx"), "{from_right: 1}", finding{verify.Appends, 2, false, "", atTwo, 0}},
	{"caddy, nginx", line("caddy", "nginx"), "{path: [caddy, nginx]}", finding{verify.Overwrites, 2, true, "", atTwo, 0}},
	{"nginx, caddy", line("nginx", "caddy"), "{from_right: 3}", finding{verify.Appends, 2, false, "X-Forwarded-For", atTwo, 1}},
}

// What weir verify finds is so, in every position that it prints; a forged address that is believed is
// exit code 1.
func TestVerify(t *testing.T) {
	for _, e := range errands {
		t.Run(strings.ReplaceAll(e.name, ", ", "_"), func(t *testing.T) {
			t.Parallel()
			if got := open(t, plan{proxies: e.proxies, client: e.client}).verify(t); got != e.want {
				t.Errorf("client: %s\n got %+v\nwant %+v", e.client, got, e.want)
			}
		})
	}
}

// Whoever pastes the lines is right afterwards. Both roads of two clients are not needed: 17 are there.
func TestWhatVerifyPrintsIsRight(t *testing.T) {
	for _, e := range errands {
		if e.want.Right || e.want.Paste == "" {
			continue
		}
		t.Run(strings.ReplaceAll(e.name, ", ", "_"), func(t *testing.T) {
			t.Parallel()
			want := e.want
			want.Right, want.Believed, want.Exit = true, "", 0
			if got := open(t, plan{proxies: e.proxies, more: e.want.Paste}).verify(t); got != want {
				t.Errorf("with\n%s got %+v\nwant %+v", e.want.Paste, got, want)
			}
		})
	}
}

// verify runs the command through the proxies.
func (r *road) verify(t *testing.T) finding {
	t.Helper()
	out, err := exec.Command(proctest.Weir(t), "verify", "http://"+r.entry+"/open/verify", "--admin", "http://"+r.admin, "--json").Output()
	var ended *exec.ExitError
	exit := 0
	if errors.As(err, &ended) {
		exit = ended.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var report verify.Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %s\n%s\n%s", err, out, ended.Stderr, r.logs())
	}
	t.Log(string(out))
	return finding{report.Does, report.Appended, report.Right, report.Believed, report.Paste, exit}
}
