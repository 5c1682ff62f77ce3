package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/timed"
)

const (
	browsers = 10
	measured = 10 * time.Second
	most     = .02 // of one core: 1.4 % on a quiet machine
)

// TestTenBrowsersCostLittle opens the dashboard of a real process ten times, and compares the processor time
// that it takes with that without.
func TestTenBrowsersCostLittle(t *testing.T) {
	timed.Only(t)
	t.Parallel()
	w := runProcess(t)
	for i := range 1200 { // fills what the page asks about
		w.send(fmt.Sprintf("198.51.100.%d", i%50), "/api/search", 1)
	}
	before := w.share(t)
	b := open(t, "http://"+w.admin+"/", wide, high)
	b.await(live)
	for range browsers - 1 {
		ctx, leave := chromedp.NewContext(b.ctx)
		defer leave()
		another := &browser{t: t, ctx: ctx}
		another.run(chromedp.Navigate("http://" + w.admin + "/"))
		another.await(live + " && !document.hidden")
	}
	with := w.share(t)
	for range 2 { // what else the machine does only adds to it
		if with-before > most/2 {
			with = min(with, w.share(t))
		}
	}
	if with-before > most {
		t.Errorf("%d open dashboards take %.1f %% of a core, want at most %.0f %%", browsers, 100*(with-before), 100*most)
	} else {
		t.Logf("%d open dashboards take %.2f %% of a core", browsers, 100*(with-before))
	}
}

// runProcess runs the program, without the race detector, before a service.
func runProcess(t *testing.T) *weir {
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	proctest.Need(t, "chromium")
	w := planned(t)
	w.write(enforced)
	dir := filepath.Dir(w.file)
	p, err := proctest.Start("weir", dir, proctest.Weir(t), "run", "-c", w.file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGTERM) }) // what it did has been seen
	if err := proctest.Await(patience, func() error { return p.Listening(w.front) }); err != nil {
		t.Fatal(err)
	}
	return w
}

var processorTime = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`)

// share is how much of one core the process takes, over some seconds in which nobody asks the front.
func (w *weir) share(t *testing.T) float64 {
	first := w.seconds(t)
	time.Sleep(measured) // the measure itself
	return (w.seconds(t) - first) / measured.Seconds()
}

// seconds is the processor time that the process has taken so far.
func (w *weir) seconds(t *testing.T) float64 {
	t.Helper()
	res, err := http.Get("http://" + w.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := processorTime.FindSubmatch(body)
	if m == nil {
		t.Fatal("/metrics has no process_cpu_seconds_total")
	}
	seconds, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}
