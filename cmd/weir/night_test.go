package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/timed"
)

const (
	quietClients = 50
	quietEvery   = 2 * time.Second
	loudAskers   = 16
	loudEvery    = quietEvery / 100 * loudAskers // all together ask 100 times as often as a quiet client
	loud         = "203.0.113.66"
	heldOfOne    = 4 // askers of one client in the tarpit

	soon = 60 * time.Second // for what takes a second on a quiet machine
)

// A town is a real Weir before a service, whom clients ask again and again.
type town struct {
	t                  *testing.T
	file, front, admin string
	service            string
	client             http.Client
	life               context.Context
	askers             sync.WaitGroup

	open, most        atomic.Int64 // connections that the service has, and the most it had
	hurt, loudRefused atomic.Int64 // requests that were not answered 200: of quiet clients, of the loud one
}

// found starts a Weir that only watches.
func found(t *testing.T) *town {
	w := &town{t: t, file: filepath.Join(t.TempDir(), "weir.yaml")}
	for _, address := range []*string{&w.front, &w.admin} {
		var err error
		if *address, err = proctest.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	w.serve()
	w.write("default: {limits: []}")
	program, err := exec.LookPath("weir")
	if err != nil {
		t.Fatal(err)
	}
	p, err := proctest.Start("weir", filepath.Dir(w.file), program, "run", "-c", w.file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGKILL) }) // nobody waits for who sits in the tarpit
	w.await("the front", func() error { return p.Listening(w.front) })
	transport := &http.Transport{MaxIdleConnsPerHost: quietClients + loudAskers}
	w.client = http.Client{Transport: transport}
	life, end := context.WithCancel(t.Context())
	w.life = life
	t.Cleanup(func() { end(); w.askers.Wait(); transport.CloseIdleConnections() })
	return w
}

// serve runs the service, which counts its connections.
func (w *town) serve() {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if n := w.open.Add(1); n > w.most.Load() {
				w.most.Store(n)
			}
		case http.StateClosed:
			w.open.Add(-1)
		}
	}
	s.Start()
	w.t.Cleanup(s.Close)
	w.service = s.URL
}

// write replaces the configuration by one with other rules.
func (w *town) write(rules string) {
	w.t.Helper()
	text := fmt.Sprintf("listen: %q\nadmin: %q\nupstream: %q\ndata_dir: %q\nclient: {path: [{name: edge, cidrs: [127.0.0.0/8]}]}\n%s\n",
		w.front, w.admin, w.service, filepath.Dir(w.file), rules)
	if err := os.WriteFile(w.file+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.file+".new", w.file); err != nil {
		w.t.Fatal(err)
	}
}

// settle has a client ask every so often until the test ends.
func (w *town) settle(addr string, every time.Duration, refused *atomic.Int64) {
	w.askers.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if status := w.ask(addr); status != http.StatusOK && w.life.Err() == nil {
				refused.Add(1)
			}
			select {
			case <-w.life.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// ask returns the HTTP status of one answer, 0 if there was none.
func (w *town) ask(addr string) int {
	r, err := http.NewRequestWithContext(w.life, http.MethodGet, "http://"+w.front+"/shop", nil)
	if err != nil {
		return 0
	}
	r.Header.Set("X-Forwarded-For", addr)
	res, err := w.client.Do(r)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // it is short
	return res.StatusCode
}

func (w *town) await(what string, holds func() error) {
	w.t.Helper()
	if err := proctest.Await(soon, holds); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// api decodes an answer of the admin API.
func (w *town) api(method, path, body string, into any) error {
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.admin+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: HTTP status %d", method, path, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// enact puts other rules in force, for a reason.
func (w *town) enact(rules, reason string) {
	w.t.Helper()
	w.write(rules)
	if err := w.api("POST", "reload", fmt.Sprintf(`{"reason": %q}`, reason), new(admin.Reload)); err != nil {
		w.t.Fatal(err)
	}
}

// flat wants that no connection is held beyond one for each who asks.
func (w *town) flat(phase string) {
	w.t.Helper()
	if n := w.most.Load(); n > quietClients+loudAskers {
		w.t.Errorf("%s: the service had %d connections, want at most one for each of %d askers", phase, n, quietClients+loudAskers)
	}
	if n := w.hurt.Load(); n > 0 {
		w.t.Errorf("%s: %d requests of quiet clients were not answered 200", phase, n)
	}
}

// An operator's night, from the first look to the last: one address asks 100 times as often as each of 50 others.
// Who it is is seen at once, in the API as in weir top; a limit on trial says who would be hurt; enforced, it hurts
// nobody else; in the tarpit a few of its askers are held and all others are refused at once. The service's
// connections stay as few all the time, and every step is written down. (The dashboard's part of the night is in
// admin/dashboard/browser.)
func TestAnOperatorsNight(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program under traffic")
	}
	w := found(t)
	for i := range quietClients {
		w.settle(fmt.Sprintf("198.51.100.%d", i), quietEvery, &w.hurt)
	}
	for range loudAskers {
		w.settle(loud, loudEvery, &w.loudRefused)
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"watching", w.isSeen}, {"shadow", w.onTrial}, {"enforcing", w.enforced}, {"tarpit", w.tarpitted}, // a ban and its end belong here
	} {
		step.do()
		w.flat(step.name)
	}
	w.isWrittenDown()
}

// isSeen: rank 1 is the loud one, in the API and in weir top, while nothing is refused.
func (w *town) isSeen() {
	began := time.Now()
	w.await("rank 1", func() error {
		var top admin.Top
		if err := w.api("GET", "top?window=1m&limit=100", "", &top); err != nil {
			return err
		}
		if len(top.Entries) < quietClients/2 || top.Entries[0].Key != loud+"/32" || top.Entries[0].Requests < 5*top.Entries[1].Requests || top.Refused > 0 {
			return fmt.Errorf("%+v", top)
		}
		return nil
	})
	if took := time.Since(began); took > timed.Bound(10*time.Second) {
		w.t.Errorf("rank 1 after %v, want 10 s", took)
	}
	out, err := exec.Command("weir", "top", "--admin", "http://"+w.admin, "--limit", "1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), " "+loud+"/32\n") {
		w.t.Errorf("weir top: %v\n%s", err, out)
	}
	if n := w.loudRefused.Load(); n > 0 {
		w.t.Errorf("%d requests were refused while Weir only watches", n)
	}
}

const limited = `default: {limits: [{name: trial, rate: 60/1m, per: client`

// onTrial: the shadow figures name the loud one, and nobody else.
func (w *town) onTrial() {
	w.enact(limited+", mode: shadow}]}", "who would be hurt?")
	w.await("shadow figures", func() error {
		var shadow admin.Shadow
		if err := w.api("GET", "shadow", "", &shadow); err != nil {
			return err
		}
		if len(shadow.Clients) != 1 || shadow.Clients[0].Key != loud+"/32" || len(shadow.Limits) != 1 || shadow.Limits[0].Recent == 0 {
			return fmt.Errorf("%+v", shadow)
		}
		return nil
	})
	if n := w.loudRefused.Load(); n > 0 {
		w.t.Errorf("%d requests were refused by a limit on trial", n)
	}
}

// enforced: the loud one is refused.
func (w *town) enforced() {
	w.enact(limited+"}]}", "only the loud one")
	w.await("refusals", func() error {
		if w.loudRefused.Load() < 20 {
			return errors.New("the loud one is hardly refused")
		}
		return nil
	})
}

// tarpitted: so many of the loud one's askers are held, and never more; further ones are refused at once.
func (w *town) tarpitted() {
	w.enact(fmt.Sprintf("rules: [{name: pit, path: /, action: tarpit, tarpit: {delay: 20s, max_held: 40, max_held_per_client: %d}, limits: [{name: trial, rate: 60/1m, per: client}]}]", heldOfOne), "hold it up")
	before := w.loudRefused.Load()
	w.await("the tarpit's bound", func() error {
		var status admin.Status
		var decisions admin.Decisions
		if err := errors.Join(w.api("GET", "status", "", &status), w.api("GET", "decisions?only=refused&limit=1000", "", &decisions)); err != nil {
			return err
		}
		atOnce := 0
		for _, d := range decisions.Decisions {
			if d.Reason == "tarpit full" {
				atOnce++
			}
		}
		switch {
		case status.Held > heldOfOne:
			w.t.Errorf("%d askers are held, want at most %d", status.Held, heldOfOne)
		case status.Held < heldOfOne || atOnce < 20 || w.loudRefused.Load() < before+20:
			return fmt.Errorf("%d held, %d refused at once", status.Held, atOnce)
		}
		return nil
	})
}

// isWrittenDown: every step is in the audit log, by whom and why.
func (w *town) isWrittenDown() {
	var audit admin.Audit
	if err := w.api("GET", "audit", "", &audit); err != nil {
		w.t.Fatal(err)
	}
	var steps []string
	for _, line := range slices.Backward(audit.Lines) {
		if line.Who != "file" { // the watcher may have been first
			steps = append(steps, strings.Join([]string{line.Who, line.What, line.Reason, line.Error}, "|"))
		}
	}
	want := []string{"loopback|reload|who would be hurt?|", "loopback|reload|only the loud one|", "loopback|reload|hold it up|"}
	if diff := cmp.Diff(want, steps); diff != "" {
		w.t.Errorf("-want +got:\n%s", diff)
	}
}
