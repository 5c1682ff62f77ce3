package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/proctest"
)

// A pane is a real terminal in which a shell runs, as tmux emulates one.
type pane struct {
	t      *testing.T
	socket string
}

// newPane starts a shell of so many columns and lines.
func newPane(t *testing.T, columns, lines int) *pane {
	program := proctest.Need(t, "tmux")
	if _, err := exec.LookPath("weir"); err != nil {
		t.Fatal(err)
	}
	p := &pane{t, filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { _ = exec.Command(program, "-S", p.socket, "kill-server").Run() }) // its own server, by its socket
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(lines), "env -u NO_COLOR PS1='ready> ' TERM=screen sh")
	p.await("the prompt", func(text string) bool { return strings.Contains(text, "ready>") })
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %s: %v: %s", args, err, out)
	}
	return string(out)
}

// press sends keys, by tmux's names for them.
func (p *pane) press(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

// await waits until what is seen is as wanted.
func (p *pane) await(what string, holds func(text string) bool) {
	p.t.Helper()
	var seen string
	if err := proctest.Await(30*time.Second, func() error {
		if seen = p.tmux("capture-pane", "-p"); !holds(seen) {
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		p.t.Fatalf("never: %s; the terminal shows\n%s", what, seen)
	}
}

// shows waits until all texts are seen, and none that begins with !.
func (p *pane) shows(texts ...string) {
	p.t.Helper()
	p.await(strings.Join(texts, ", "), func(seen string) bool {
		for _, text := range texts {
			text, unwanted := strings.CutPrefix(text, "!")
			if strings.Contains(seen, text) == unwanted {
				return false
			}
		}
		return true
	})
}

// A stage answers weir top with what was asked, so that it is seen.
type stage struct {
	*httptest.Server
	down  atomic.Bool
	asked atomic.Int64
}

func newStage(t *testing.T) *stage {
	s := new(stage)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodPost {
			banned(w, r)
			return
		}
		q, n := r.URL.Query(), s.asked.Add(1)
		top := admin.Top{By: q.Get("by"), Window: q.Get("window"), Step: 10, Requests: 1000 + uint64(n), Entries: []admin.TopEntry{
			{Rank: 1, Key: "loud-" + q.Get("by") + "-" + q.Get("window") + "-" + q.Get("sort"), Requests: 900, Spark: []uint64{1, 2, 3}}, {Rank: 2, Key: "evil-\x1b[31m", Requests: 9, Refused: 7},
		}}
		for i := range 60 {
			top.Entries = append(top.Entries, admin.TopEntry{Rank: i + 3, Key: fmt.Sprintf("quiet-%d", i), Requests: 1})
		}
		_ = json.NewEncoder(w).Encode(top)
	}))
	t.Cleanup(s.Close)
	return s
}

// banned answers as if a client was banned, but for this machine.
func banned(w http.ResponseWriter, r *http.Request) {
	var body admin.NewBan
	_ = json.NewDecoder(r.Body).Decode(&body) // the test sees what is missing
	if body.Subject == "127.0.0.1" {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(admin.Problem{Status: http.StatusConflict, Detail: "this is this machine"})
		return
	}
	until := time.Date(2126, 1, 2, 3, 4, 5, 0, time.Local)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(admin.Ban{Subject: body.Subject + " for " + body.For, Until: &until})
}

// begin runs weir top in p, between two words and with what the terminal is set to afterwards.
func (p *pane) begin(s *stage, before string, args ...string) {
	p.t.Helper()
	p.press("-l", fmt.Sprintf("%s; %s weir top --admin %s --every 100ms %s; echo code=$?; stty -a | grep -ow -e '-icanon' -e icanon; echo over",
		"echo before", before, s.URL, strings.Join(args, " ")))
	p.press("Enter")
	p.shows("by client", "loud-client-1m-requests", "evil-\uFFFD[31m", "q quit", "!before")
}

// ended wants the terminal as it was, and the shell to go on.
func (p *pane) ended() {
	p.t.Helper()
	p.shows("before", "code=0", "\nicanon", "\nover", "!q quit", "!loud-client")
	p.press("-l", "echo still-$((20+22))")
	p.press("Enter")
	p.shows("still-42")
}

// The view, order, span, filter and pace are changed by keys, and q gives the terminal back.
func TestTopIsSteeredByKeys(t *testing.T) {
	s, p := newStage(t), newPane(t, 100, 30)
	p.begin(s, "")
	for _, step := range []struct{ key, seen string }{
		{"v", "loud-path-1m-requests"}, {"v", "loud-rule-1m-requests"}, {"v", "loud-shadow-1m-requests"}, {"v", "loud-client-1m-requests"},
		{"w", "loud-client-1h-requests"}, {"w", "loud-client-24h-requests"}, {"s", "loud-client-24h-refused"}, {"s", "loud-client-24h-requests"}, {"w", "loud-client-1m-requests"},
	} {
		p.press(step.key)
		p.shows(step.seen)
	}
	p.press("?")
	p.shows("only keys that contain a text", "back to the shell", "!loud-")
	p.press("?")
	p.shows("loud-client")

	p.press("/")
	p.press("-l", "quiet-1q") // q is a letter here
	p.press("BSpace", "Enter")
	p.shows(`only "quiet-1"`, "quiet-10", "!loud-client", "!quiet-2")
	p.press("/", "Escape")
	p.shows(`only "quiet-1"`, "q quit")
	p.press("/", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "Enter")
	p.shows("loud-client", `!only "`)

	p.press("Space")
	p.shows("PAUSED")
	p.press("Up", "Left", "z") // which are for nothing
	p.shows("PAUSED", "loud-client")
	p.press("Space")
	p.shows("!PAUSED")
	p.press("q")
	p.ended()
}

// On a narrow terminal there is who asks, whatever else there is no room for.
func TestTopOnANarrowTerminal(t *testing.T) {
	s, p := newStage(t), newPane(t, 44, 12)
	p.begin(s, "")
	p.shows("REQUESTS  REFUSED  CLIENT", "loud-client", "!SHARE")
	p.press("q")
	p.ended()
}

// The loudest client is offered for a ban, and any other can be named; what came of it is said until the next key.
func TestTopBans(t *testing.T) {
	s, p := newStage(t), newPane(t, 140, 20)
	p.begin(s, "")
	p.press("b")
	p.shows("ban for 10m: loud-client-1m-requests_")
	p.press("Escape")
	p.shows("q quit", "!ban for 10m")
	p.press("b", "Enter")
	p.shows("loud-client-1m-requests for 10m is banned until 2126-01-02 03:04:05", "q quit")
	p.press("z")
	p.shows("!is banned until")
	p.press("v", "b")
	p.shows("ban for 10m: _") // a path cannot be banned
	p.press("-l", "127.0.0.1")
	p.press("Enter")
	p.shows("NOT BANNED: this is this machine")
	p.press("q")
	p.ended()
}

// Whatever ends it, the terminal is as it was.
func TestTopGivesTheTerminalBack(t *testing.T) {
	for name, end := range map[string]func(p *pane){
		"Ctrl-C":  func(p *pane) { p.press("C-c") },
		"Ctrl-D":  func(p *pane) { p.press("C-d") },
		"SIGTERM": func(p *pane) { p.signal("TERM") },
		"SIGINT":  func(p *pane) { p.signal("INT") },
		"SIGHUP":  func(p *pane) { p.signal("HUP") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newStage(t), newPane(t, 90, 24)
			p.begin(s, "echo $$ > "+filepath.Join(filepath.Dir(p.socket), "pid")+";")
			end(p)
			p.ended()
		})
	}
}

// signal sends one to what the shell runs.
func (p *pane) signal(name string) {
	p.t.Helper()
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(p.socket), "pid"))
	if err != nil {
		p.t.Fatal(err)
	}
	child, err := exec.Command("ps", "-o", "pid=", "--ppid", strings.TrimSpace(string(pid))).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	if out, err := exec.Command("kill", "-"+name, strings.Fields(string(child))[0]).CombinedOutput(); err != nil {
		p.t.Fatalf("kill: %v: %s", err, out)
	}
}

// What was shown stays while nobody answers, and says how old it is.
func TestTopWithoutAnswers(t *testing.T) {
	s, p := newStage(t), newPane(t, 100, 12)
	p.begin(s, "")
	p.shows("!quiet-20", "q quit") // there is room for twelve lines
	s.down.Store(true)
	p.shows("OLD: as of ", "loud-client-1m-requests")
	s.down.Store(false)
	p.shows("!OLD")
	p.press("q")
	p.ended()
}

// Emphasis is left out where nobody wants it. Keys that no one can press are not told of.
func TestTopIsPlainWhereAsked(t *testing.T) {
	s, p := newStage(t), newPane(t, 90, 24)
	for before, emphasized := range map[string]bool{"": true, "NO_COLOR=1": false} {
		p.press("-l", "clear")
		p.press("Enter")
		p.begin(s, before)
		if got := strings.Contains(p.tmux("capture-pane", "-p", "-e"), "\x1b[1m"); got != emphasized {
			t.Errorf("%q: emphasized: %v, want %v", before, got, emphasized)
		}
		p.press("q")
		p.ended()
	}
	p.press("-l", "clear; weir top --every 100ms --admin "+s.URL+" < /dev/null")
	p.press("Enter")
	p.shows("Ctrl-C ends", "!q quit")
	p.press("C-c")
	p.shows("ready>", "!Ctrl-C ends")
}

func TestPressed(t *testing.T) {
	for sent, want := range map[string][]rune{"": {}, "q": {'q'}, "é/": {'é', '/'}, "\x1b": {escape}, "\x1b[A": nil, "\x1bOP": nil, "\x03": {ctrlC}} {
		if diff := cmp.Diff(want, pressed([]byte(sent))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", sent, diff)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"▁▂▃", 3, "▁▂▃"}, {"▁▂▃▄", 3, "▁▂…"}, {"", 1, ""}, {"ab", 1, "…"}} {
		if got := fit(c.line, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.line, c.width, got, c.want)
		}
	}
}
