package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirgate/weir/internal/proctest"
)

const patience = 30 * time.Second

// A browser is one tab of a real Chromium, and what it complained of.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // console errors, exceptions and requests to elsewhere
	requests   []string // every URL that was asked for
	expected   []string // parts of complaints that the test provokes
}

// open starts Chromium with a window of a size and shows url. It fails the test at its end if the page
// complained, or asked anybody but the server of url.
func open(t *testing.T, address string, width, height int64) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("no real browser in short mode")
	}
	program := proctest.Need(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(int(width), int(height)), chromedp.WSURLReadTimeout(patience))
	for _, name := range []string{"disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	t.Cleanup(cancel)
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	tab, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	b := &browser{t: t, ctx: tab}
	if err := chromedp.Listen(tab, func(event any) { b.note(event, address) }); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	b.run(chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	t.Cleanup(b.judge)
	return b
}

// note keeps what a test must hear of.
func (b *browser) note(event any, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console.%s: %s", e.Type, e.Args[0].Value))
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
		if !sameOrigin(e.Request.URL, address) {
			b.complaints = append(b.complaints, "asks elsewhere: "+e.Request.URL)
		}
	}
}

func sameOrigin(asked, address string) bool {
	a, err := url.Parse(asked)
	if err != nil {
		return false
	}
	home, err := url.Parse(address)
	return err == nil && a.Scheme == home.Scheme && a.Host == home.Host
}

// expect says that the test provokes complaints that contain part.
func (b *browser) expect(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, part)
}

func (b *browser) judge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		if !b.isExpected(c) {
			b.t.Errorf("the page complains: %s", c)
		}
	}
}

func (b *browser) isExpected(complaint string) bool {
	for _, part := range b.expected {
		if strings.Contains(complaint, part) {
			return true
		}
	}
	return false
}

func (b *browser) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// call gives the browser a command of its protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// value returns what a JavaScript expression is.
func value[T any](b *browser, expression string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await waits until a JavaScript condition holds.
func (b *browser) await(condition string) {
	b.t.Helper()
	if err := proctest.Await(patience, func() error {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
		if err == nil && holds {
			return nil
		}
		return errors.Join(errors.New("not yet"), err) // such as while the page is loaded anew
	}); err != nil {
		b.t.Fatalf("never: %s; the page says:\n%s", condition, b.text("body"))
	}
}

// text returns what is read at the first element of a selector.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}
