package browser_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/internal/proctest"
)

const watchOnly = `
listen: %q
admin: %q
upstream: %q
client: {path: [{name: edge, cidrs: [127.0.0.0/8]}]}
data_dir: %q
default: {limits: []}
`

const onTrial = `
rules:
  - name: search
    path: /api/search
    limits: [{name: trial, rate: 20/1h, per: client, mode: shadow}]
`

const enforced = `
rules:
  - name: search
    path: /api/search
    limits: [{name: search, rate: 20/1h, per: client}]
`

// A weir is a real one before a service, with its dashboard.
type weir struct {
	t            *testing.T
	file, config string
	front, admin string
	stop         func()
}

// planned is a Weir that is not started yet, with its configuration and the service behind it.
func planned(t *testing.T) *weir {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	w := &weir{t: t, file: filepath.Join(dir, "weir.yaml"), front: proctest.Free(t), admin: proctest.Free(t)}
	w.config = fmt.Sprintf(watchOnly, w.front, w.admin, service.URL, dir)
	return w
}

// run starts a Weir that only watches.
func run(t *testing.T) *weir {
	if testing.Short() {
		t.Skip("no real browser in short mode")
	}
	w := planned(t)
	w.write("")
	a, err := app.Start(app.Options{Config: w.file, Log: io.Discard, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(w.stop)
	return w
}

// write replaces the configuration's file, as an operator's editor does.
func (w *weir) write(more string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(w.config+more), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// send has a client ask n times, and returns how often it was refused.
func (w *weir) send(client, path string, n int) (refused int) {
	w.t.Helper()
	for range n {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.front+path, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", client)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // it is short
		res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	return refused
}

// TestNight is an operator's night at the dashboard of a real Weir: watch, see who floods, try a limit in
// shadow, enforce it, reset, explain; and Weir going away.
func TestNight(t *testing.T) {
	t.Parallel()
	const flood = "203.0.113.7"
	w := run(t)
	for i := range 50 {
		w.send(fmt.Sprintf("198.51.100.%d", i+1), "/", 2)
	}
	w.send(flood, "/api/search?q=<b>pumps</b>", 400)
	b := open(t, "http://"+w.admin+"/", wide, high)
	b.await(live)
	b.await(`document.querySelector("[data-panel=talkers] tbody tr")?.innerText.includes("203.0.113.7/32")`)
	if got := b.text("#talkers tbody tr"); !strings.Contains(got, "named by a proxy") {
		t.Errorf("rank 1 reads %q", got)
	}
	b.run(chromedp.Click(css("#talkers .rows-note button")))
	b.await(`document.querySelectorAll("#talkers tbody tr").length === 50`)

	w.write(onTrial)
	b.await(`document.querySelector("[data-panel=shadow]").innerText.includes("On trial: 20/1h")`)
	w.send(flood, "/api/search", 60)
	b.await(`/[1-9]\d* *\n*would be refused/.test(document.querySelector("[data-panel=shadow]").innerText) && document.querySelector("[data-panel=shadow]").innerText.includes("203.0.113.7/32")`)

	w.write(enforced)
	b.await(`document.querySelector("[data-panel=rules]").innerText.includes("20/1h") && !document.querySelector("[data-panel=rules] .tag.trial")`)
	if refused := w.send(flood, "/api/search", 60); refused != 40 {
		t.Errorf("%d of 60 are refused, want 40", refused)
	}
	if refused := w.send("198.51.100.9", "/api/search", 5); refused != 0 {
		t.Errorf("%d requests of another are refused", refused)
	}
	b.await(`document.querySelector("[data-panel=decisions] tbody")?.innerText.includes("429 reject")`)
	b.await(`document.querySelector("[data-panel=rules] .gauge.full")`)

	b.run(chromedp.Click(css(`[aria-label="Reset 203.0.113.7/32"]`)), chromedp.SendKeys(css("#sure-reason"), "drill"), chromedp.Click(css("#sure-yes")))
	b.await(`document.getElementById("said").textContent.startsWith("Reset 203.0.113.7/32: ")`)
	if refused := w.send(flood, "/api/search", 20); refused != 0 {
		t.Errorf("after the reset %d of 20 are refused", refused)
	}

	b.run(chromedp.SetValue(css("#x-url"), "/api/search"), chromedp.SetValue(css("#x-remote"), "127.0.0.1"),
		chromedp.SetValue(css("#x-headers"), "X-Forwarded-For: 6.6.6.6, "+flood), chromedp.Click(css("#explain-form button")))
	b.await(`document.querySelector("#explain-result .answer")`)
	for _, want := range []string{"429 reject: over limit", "127.0.0.1", "trusted, named by edge", "203.0.113.7/32", "the client", "0 of 20"} {
		if got := b.text("#explain-result"); !strings.Contains(got, want) {
			t.Errorf("the explanation does not say %q:\n%s", want, got)
		}
	}

	b.expect("Failed to load resource")
	w.stop()
	b.await(`document.body.dataset.state === "stale" && !document.getElementById("banner").hidden`)
}
