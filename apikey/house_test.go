package apikey

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is when most tests begin.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// embedded returns a new database as localdb has one.
func embedded(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	for _, statement := range Tables() {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// A house is keys in an embedded database, and a clock.
type house struct {
	*Keys
	t   testing.TB
	db  *sql.DB
	now time.Time
}

func build(t testing.TB, o Options) *house {
	t.Helper()
	h := &house{t: t, db: embedded(t), now: noon}
	o.Now = func() time.Time { return h.now }
	h.Keys = open(t, NewStore(h.db, nil), o)
	return h
}

func open(t testing.TB, s *Store, o Options) *Keys {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second // a busy machine is no broken database
	}
	k, err := Open(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// create makes a key as spec says.
func (h *house) create(spec Spec) (Key, string) {
	h.t.Helper()
	k, secret, err := h.Create(context.Background(), spec)
	if err != nil {
		h.t.Fatal(err)
	}
	return k, secret
}

// usual is how most tests read keys.
func usual() Settings {
	return Settings{Header: "X-Api-Key", Bearer: true, Query: "api_key", Plans: map[string]bool{"free": true}, Grace: time.Minute}
}

// verify returns what becomes of a request with a key in the header.
func (h *house) verify(secret string) weir.Client {
	d := weir.Decision{At: h.now, Request: weir.Request{Header: http.Header{"X-Api-Key": {secret}}}}
	h.Verifier(usual()).Verify(context.Background(), &d)
	return d.Client
}
