package demo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newStage is a stage whose words end in a buffer. It is closed when the test ends, with nothing left.
func newStage(t *testing.T) (*stage, *bytes.Buffer) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	s, err := openStage(t.Context(), Options{Out: &out, Program: "weir"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder is left: %v", err)
		}
	})
	return s, &out
}

// A promise that is not kept is told where it is shown and at the end, with what was expected, and the others are shown
// all the same. One that is shown in part only is not among those that were kept.
func TestTourTellsWhatIsNotKept(t *testing.T) {
	s, out := newStage(t)
	err := s.tour(t.Context(), []promise{
		{"a count", func(_ context.Context, s *stage) error { s.want("requests that pass", 101, 100); return nil }},
		{"a bound", func(_ context.Context, s *stage) error { s.wantAtMost("held", 50, 50); return nil }},
		{"a road", func(context.Context, *stage) error { return errors.New("no answer") }},
		{"a store", func(_ context.Context, s *stage) error { s.inPart = true; return nil }},
		{"a word", func(_ context.Context, s *stage) error {
			s.inPart = true
			s.wantText("the client", "let in", "kept out")
			s.wantAtMost("held", 51, 50)
			return nil
		}},
	})
	want := `not kept:
  1. a count: requests that pass: 101, expected 100
  3. a road: no answer
  5. a word: the client: "let in", expected "kept out"
  5. a word: held: 51, expected at most 50`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	wantOut := `
1. a count
   NOT KEPT: requests that pass: 101, expected 100

2. a bound

3. a road
   NOT KEPT: no answer

4. a store

5. a word
   NOT KEPT: the client: "let in", expected "kept out"
   NOT KEPT: held: 51, expected at most 50

1 of 5 promises kept, in 0 s.
1 shown in part: there is no redis-server on the PATH.
`
	if diff := cmp.Diff(wantOut, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A stop that was asked for is no failure, unless a promise had been found not kept.
func TestOnlyAStopIsQuiet(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	failed, unkept := errors.New("no answer"), &broken{list: []string{"1. a count"}}
	for _, tc := range []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), failed, failed},
		{stopped, failed, nil},
		{stopped, context.Canceled, nil},
		{stopped, unkept, unkept},
	} {
		if got := quiet(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%v after %v: got %v, want %v", tc.err, tc.ctx.Err(), got, tc.want)
		}
	}
}

// An interrupted tour shows nothing further, and counts nothing.
func TestTourEndsWithItsContext(t *testing.T) {
	s, out := newStage(t)
	ctx, stop := context.WithCancel(t.Context())
	err := s.tour(ctx, []promise{
		{"a wait", func(ctx context.Context, _ *stage) error { stop(); return pause(ctx, time.Hour) }},
		{"another", func(context.Context, *stage) error { t.Error("shown after the end"); return nil }},
	})
	if !errors.Is(err, context.Canceled) || out.String() != "\n1. a wait\n" {
		t.Errorf("got %v and %q", err, out)
	}
}

// What is open after the tour follows its file when it is edited, and its word of what to try is true.
func TestStageFollowsItsFile(t *testing.T) {
	s, out := newStage(t)
	s.invite()
	if !strings.Contains(out.String(), "edit "+s.weir.file+" and save it\n") {
		t.Fatal(out)
	}
	yaml, err := os.ReadFile(s.weir.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.weir.file, bytes.ReplaceAll(yaml, []byte("300/1m"), []byte("777/1m")), 0o600); err != nil {
		t.Fatal(err)
	}
	err = await(t.Context(), func() (bool, error) {
		a, err := s.ask(t.Context(), visit{path: "/", from: "203.0.113.1"})
		return a.header.Get("RateLimit-Policy") == `"default";q=777;w=60`, err
	})
	if err != nil {
		t.Errorf("it does not follow: %v", err)
	}
}

// The proxy that the demo plays writes what nginx would: who asked, what, and how it was answered.
func TestAccessLog(t *testing.T) {
	s, _ := newStage(t)
	for _, v := range []visit{
		{path: "/a?b=c", from: "203.0.113.1", forged: "6.6.6.6", agent: "browser/1"},
		{to: s.service.addr, path: "/elsewhere", from: "203.0.113.2"},
	} {
		if a, err := s.ask(t.Context(), v); err != nil || a.status != http.StatusOK {
			t.Fatal(a, err)
		}
	}
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(text), " [")
	_, after, _ = strings.Cut(after, "] ")
	// The service says the peer: this Weir has not been told of a proxy.
	if got, want := before+" "+after, "203.0.113.1 - - \"GET /a?b=c HTTP/1.1\" 200 48 \"-\" \"browser/1\"\n"; got != want || s.logged.Load() != 1 {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The stricter policy is the stage's with the numbers halved that are in force, and nothing on trial.
func TestStrictHalves(t *testing.T) {
	s, _ := newStage(t)
	rates := func(text string) (rates []string, modes int) {
		c, problems := config.Parse("policy", []byte(text), nil)
		if config.HasErrors(problems) {
			t.Fatal(problems)
		}
		for _, r := range append(c.Rules, config.Rule{Limits: c.Default.Limits}) {
			rates = append(rates, r.Limits[0].Rate.String())
			modes += strings.Count(r.Mode, "shadow")
		}
		return rates, modes
	}
	got, onTrial := rates(s.strict())
	want := []string{"30/1h", "10/1m", "50/1h", "1/2s", "5/1h", "5/1h", "5/1h", "150/1m"}
	if diff := cmp.Diff(want, got); diff != "" || onTrial != 0 {
		t.Errorf("%d on trial; (-want +got):\n%s", onTrial, diff)
	}
	if _, onTrial := rates(s.policy(notSaid)); onTrial != 1 {
		t.Errorf("%d on trial before, want 1", onTrial)
	}
}
