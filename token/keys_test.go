package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weirgate/weir"
)

// A server is an issuer's, in a bubble: what a fetch gets, how long that takes, and how often it happened.
type server struct {
	set   atomic.Pointer[set] // nil: it does not answer
	takes atomic.Int64        // nanoseconds
	fresh time.Duration
	asked atomic.Int64
}

// slow is a server that takes its time.
func slow(by time.Duration) *server {
	s := &server{fresh: time.Hour}
	s.takes.Store(int64(by))
	return s
}

func (s *server) fetch(ctx context.Context) (*set, time.Duration, error) {
	s.asked.Add(1)
	select {
	case <-time.After(time.Duration(s.takes.Load())):
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if s.set.Load() == nil {
		return nil, 0, errors.New("nobody answers")
	}
	return s.set.Load(), s.fresh, nil
}

// shows makes the keys of issuers the server's.
func (s *server) shows(t testing.TB, issuers ...*issuer) {
	t.Helper()
	var keys []any
	for _, i := range issuers {
		keys = append(keys, i.public())
	}
	made, err := parseSet(document(t, keys...))
	if err != nil {
		t.Fatal(err)
	}
	s.set.Store(made)
}

// keys are kept up to date from the server, until the test ends.
func (s *server) keys(t testing.TB, log *slog.Logger) *Keys {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	k := &Keys{fetch: s.fetch, log: log, wanted: make(chan struct{}, 1), done: make(chan struct{}), turn: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	go k.run(ctx)
	t.Cleanup(k.Close)
	return k
}

// Before there is a key set nothing can be told, and nobody waits longer than his budget; then everything can.
func TestStartWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer("k1", jose.ES256)
		s := slow(2 * Budget)
		v := New(s.keys(t, nil), options())
		text := i.sign(t, good(nil))
		began := time.Now()
		if got := judged(t, v, text); got != weir.Unverifiable || time.Since(began) != Budget {
			t.Errorf("while the first fetch is under way: %s after %v, want unverifiable after %v", got, time.Since(began), Budget)
		}
		time.Sleep(2 * Budget)
		began = time.Now()
		if got := judged(t, v, text); got != weir.Unverifiable || time.Since(began) != 0 {
			t.Errorf("after it failed: %s after %v, want unverifiable at once", got, time.Since(began))
		}
		s.shows(t, i)
		time.Sleep(2*firstRetry + 2*Budget)
		if got := judged(t, v, text); got != weir.Verified {
			t.Errorf("after a second try: %s", got)
		}
	})
}

// A first request waits for the first fetch, if that is quick.
func TestFirstRequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer("k1", jose.ES256)
		s := slow(Budget / 2)
		s.shows(t, i)
		if got := judged(t, New(s.keys(t, nil), options()), i.sign(t, good(nil))); got != weir.Verified {
			t.Error(got)
		}
	})
}

// A key that is not known has the set fetched, at most every ten seconds however many tokens name how many keys.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := another(t, "old"), another(t, "next")
		s := slow(time.Millisecond)
		s.shows(t, old)
		v := New(s.keys(t, nil), options())
		first, second := old.sign(t, good(nil)), next.sign(t, good(nil))
		if got := judged(t, v, first); got != weir.Verified {
			t.Fatal(got)
		}
		time.Sleep(time.Minute)
		s.shows(t, next)
		if got := judged(t, v, second); got != weir.Verified {
			t.Errorf("a new key: %s", got)
		}
		if got := judged(t, v, first); got != weir.Refuted {
			t.Errorf("a token by the key that was withdrawn: %s", got)
		}
		time.Sleep(time.Minute)
		before := s.asked.Load()
		for n := range 100 * 10 { // in 100 seconds
			if got := judged(t, v, another(t, fmt.Sprint(n)).sign(t, good(nil))); got != weir.Refuted {
				t.Fatalf("a key that is nobody's: %s", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.asked.Load() - before; n < 5 || n > 11 {
			t.Errorf("fetched %d times in 100 seconds, want at most 11", n)
		}
		if got := judged(t, v, second); got != weir.Verified {
			t.Errorf("the good one, in between: %s", got)
		}
	})
}

// While the server fails, what was known stays good. A token by an unknown key is refused as long as the set cannot
// be told to have it.
func TestServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i, next := another(t, "k1"), another(t, "k2")
		s := slow(time.Millisecond)
		s.fresh = time.Minute
		s.shows(t, i)
		v := New(s.keys(t, slog.New(slog.NewTextHandler(&log, nil))), options())
		line := "Bearer " + i.sign(t, good(nil))
		ask(t, v, noon, line)
		s.set.Store(nil)
		time.Sleep(time.Hour)
		if got := ask(t, v, noon, line).Credential; got != weir.Verified {
			t.Errorf("an hour later: %s", got)
		}
		if got := judged(t, v, next.sign(t, good(nil))); got != weir.Refuted {
			t.Errorf("an unknown key: %s", got)
		}
		if n := s.asked.Load(); n < 55 || n > 75 {
			t.Errorf("asked %d times in an hour, want about once a minute", n)
		}
		s.takes.Store(int64(time.Minute))
		time.Sleep(2 * time.Minute)
		began := time.Now()
		if got := judged(t, v, next.sign(t, good(nil))); got != weir.Unverifiable && got != weir.Refuted || time.Since(began) > Budget {
			t.Errorf("a slow server: %s after %v", got, time.Since(began))
		}
		s.takes.Store(0)
		s.shows(t, i, next)
		time.Sleep(3 * time.Minute)
		if got := judged(t, v, next.sign(t, good(nil))); got != weir.Verified {
			t.Errorf("when it is back: %s", got)
		}
		synctest.Wait()
		if text := log.String(); strings.Count(text, "not fetched") != 1 || strings.Count(text, "fetched again") != 1 {
			t.Errorf("want one line when it fails and one when it does not:\n%s", text)
		}
	})
}

// A set that says the same proves what it proved.
func TestSameSetKeepsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer("k1", jose.ES256)
		s := &server{fresh: time.Minute}
		s.shows(t, i)
		k := s.keys(t, nil)
		judged(t, New(k, options()), i.sign(t, good(nil)))
		before := k.current.Load()
		s.shows(t, i)
		time.Sleep(2 * time.Minute)
		if k.current.Load() != before {
			t.Error("another set is in force")
		}
	})
}

// A file is read again when it changes; a broken one changes nothing.
func TestFileChanges(t *testing.T) {
	old, next := another(t, "old"), another(t, "next")
	name := fileOf(t, old)
	f := &file{name: name}
	fetch := func() (*set, error) { s, _, err := f.fetch(t.Context()); return s, err }
	if s, err := fetch(); err != nil || s == nil {
		t.Fatal(err)
	}
	if s, err := fetch(); err != nil || s != nil {
		t.Errorf("it did not change: %v, %v", s, err)
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s, err := fetch(); err == nil || s != nil {
			t.Errorf("broken: %v", s)
		}
	}
	write(t, name, old, next)
	if s, err := fetch(); err != nil || s == nil || len(s.keys) != 2 {
		t.Errorf("changed: %v, %v", s, err)
	}
	if err := Check(Source{File: name}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{t.TempDir(), name + ".none"} {
		if err := Check(Source{File: bad}); err == nil {
			t.Errorf("%s is good", bad)
		}
	}
}

// A file that comes late is found a second later, however long it was not there.
func TestFileComesLate(t *testing.T) {
	i, name := another(t, "k1"), filepath.Join(t.TempDir(), "keys.json")
	synctest.Test(t, func(t *testing.T) {
		k := Open(Source{File: name}, nil)
		defer k.Close()
		v := New(k, options())
		text := i.sign(t, good(nil))
		time.Sleep(time.Hour)
		if got := judged(t, v, text); got != weir.Unverifiable {
			t.Errorf("without the file: %s", got)
		}
		write(t, name, i)
		time.Sleep(lookEvery)
		synctest.Wait()
		if got := judged(t, v, text); got != weir.Verified {
			t.Errorf("a second after it came: %s", got)
		}
	})
}

// A URL is asked whether its document changed, and its answer is fresh as it says, within bounds.
func TestRemote(t *testing.T) {
	i := newIssuer("k1", jose.ES256)
	text := document(t, i.public())
	var answer http.HandlerFunc
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer s.Close()
	plain := func(w http.ResponseWriter, _ *http.Request) { w.Write(text) }
	says := func(name, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.Header().Set(name, value); plain(w, r) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		fresh  time.Duration
		err    string
	}{
		"plain":        {plain, usualFresh, ""},
		"an hour":      {says("Cache-Control", `public, Max-Age="3600"`), time.Hour, ""},
		"too short":    {says("Cache-Control", "max-age=1"), leastFresh, ""},
		"too long":     {says("Cache-Control", "max-age=99999999"), mostFresh, ""},
		"far too long": {says("Cache-Control", "max-age=99999999999999999999"), usualFresh, ""},
		"never":        {says("Cache-Control", "no-store"), leastFresh, ""},
		"aged": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Age", "600")
			says("Cache-Control", "max-age=3600")(w, r)
		}, 50 * time.Minute, ""},
		"an error":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 0, "HTTP status 500"},
		"no set":    {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, 0, "no key set"},
		"endless":   {func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte(" "), maxDocument+1)) }, 0, "longer than"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9999"); w.Write(text) }, 0, "unexpected EOF"},
		"in a ring": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, 0, "sent elsewhere"},
	} {
		answer = c.answer
		set, fresh, err := newRemote(s.URL).fetch(t.Context())
		if fresh != c.fresh || (err == nil) != (c.err == "") || (set == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, fresh for %v, %v; want %v, %q", name, set != nil, fresh, err, c.fresh, c.err)
		}
	}
	r := newRemote(s.URL)
	answer = says("ETag", `"one"`)
	r.fetch(t.Context())
	answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != `"one"` {
			t.Errorf("asked with %v", r.Header)
		}
		w.WriteHeader(http.StatusNotModified)
	}
	if set, fresh, err := r.fetch(t.Context()); set != nil || fresh != usualFresh || err != nil {
		t.Errorf("not modified: %v, %v, %v", set, fresh, err)
	}
}

// A fetch by TLS is not sent out of it.
func TestRemoteStaysInTLS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer plain.Close()
	s := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer s.Close()
	r := newRemote(s.URL)
	r.client.Transport = s.Client().Transport
	if _, _, err := r.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "https to http") {
		t.Errorf("%v", err)
	}
}

// Tokens are proved while the set is replaced, from a real server.
func TestManyAtOnce(t *testing.T) {
	i := newIssuer("k1", jose.ES256)
	text := document(t, i.public())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(text) }))
	defer s.Close()
	k := Open(Source{URL: s.URL}, nil)
	defer k.Close()
	v := New(k, options())
	lines := []string{"Bearer " + i.sign(t, good(nil)), "Bearer " + i.sign(t, good(map[string]any{"sub": "bob"}))}
	for ask(t, v, noon, lines[0]).Credential != weir.Verified { // until the first fetch has ended
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 200 {
				if got := ask(t, v, noon, lines[n%2]); got.Credential != weir.Verified || got.APIKey != [...]string{"jwt:ann", "jwt:bob"}[n%2] {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
}
