package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/apikey/postgres"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/pgtest"
	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long an answer may take on a busy machine.
const patience = 30 * time.Second

// A replica is a process that follows a database.
type replica struct {
	*apikey.Keys
	db *sql.DB
}

func start(t *testing.T, url string, o apikey.Options) *replica {
	t.Helper()
	db, store, err := postgres.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	o.Log = slog.New(slog.DiscardHandler)
	keys, err := apikey.Open(t.Context(), store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close(); db.Close() })
	return &replica{keys, db}
}

// verify returns what becomes of a request with a key.
func (r *replica) verify(secret string) weir.Credential {
	d := weir.Decision{At: time.Now(), Request: weir.Request{Header: http.Header{"X-Api-Key": {secret}}}}
	r.Verifier(apikey.Settings{Header: "X-Api-Key", Grace: time.Minute}).Verify(context.Background(), &d)
	return d.Client.Credential
}

// becomes waits until a key is what it should be.
func (r *replica) becomes(t *testing.T, secret string, want weir.Credential) {
	t.Helper()
	err := proctest.Await(patience, func() error {
		if got := r.verify(secret); got != want {
			return fmt.Errorf("the key is %s, want %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Ten replicas start at once on an empty database; what one of them changes, all know.
func TestReplicas(t *testing.T) {
	server := pgtest.Start(t)
	replicas := make([]*replica, 10)
	var starting sync.WaitGroup
	for i := range replicas {
		starting.Go(func() { replicas[i] = start(t, server.URL(), apikey.Options{Poll: 20 * time.Millisecond}) })
	}
	starting.Wait()
	for _, r := range replicas {
		if r == nil || r.Failing() {
			t.Fatal("a replica did not start")
		}
	}
	k, first, err := replicas[0].Create(t.Context(), apikey.Spec{Name: "a", Scopes: []string{"read", "write"}})
	if err != nil {
		t.Fatal(err)
	}
	_, next, err := replicas[1].Rotate(t.Context(), k.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		r.becomes(t, first, weir.Verified)
		r.becomes(t, next, weir.Verified)
	}
	if _, err := replicas[2].Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		r.becomes(t, first, weir.Refuted)
		r.becomes(t, next, weir.Refuted)
	}
	if list, err := replicas[3].List(t.Context(), apikey.Query{Limit: 10}); err != nil || len(list) != 1 || list[0].Revoked.IsZero() {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

// The server dies and comes back: keys that are known go on, others cannot be told, and nobody starts anew.
func TestServerDies(t *testing.T) {
	server := pgtest.Start(t)
	r := start(t, server.URL(), apikey.Options{Poll: 20 * time.Millisecond})
	_, known, err := r.Create(t.Context(), apikey.Spec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	k, revoked, err := r.Create(t.Context(), apikey.Spec{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	r.becomes(t, revoked, weir.Unverifiable)
	r.becomes(t, known, weir.Verified)
	if _, _, err := r.Create(t.Context(), apikey.Spec{Name: "b"}); err == nil {
		t.Error("a key is created in a dead database")
	}
	server.Run()
	r.becomes(t, revoked, weir.Refuted)
	r.becomes(t, known, weir.Verified)
}

// A process starts before its database: nobody is verified until it is there.
func TestServerComesLater(t *testing.T) {
	server := pgtest.Start(t)
	secret := func() string {
		_, secret, err := start(t, server.URL(), apikey.Options{}).Create(t.Context(), apikey.Spec{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}()
	server.Kill()
	r := start(t, server.URL(), apikey.Options{Poll: 20 * time.Millisecond})
	if got := r.verify(secret); got != weir.Unverifiable {
		t.Errorf("without a database a key is %s", got)
	}
	server.Run()
	r.becomes(t, secret, weir.Verified)
}

// A database that accepts and says nothing holds nobody up for longer than the timeout.
func TestBlackHole(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const timeout = 200 * time.Millisecond
	begun := time.Now()
	r := start(t, "postgres://weir@"+l.Addr().String()+"/weir?sslmode=disable", apikey.Options{Poll: time.Hour, Timeout: timeout})
	if took := time.Since(begun); took > patience { // connect_timeout is 2 s, the system's minutes
		t.Errorf("starting took %s", took)
	}
	if _, _, err := r.Create(t.Context(), apikey.Spec{Name: "a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("creating a key: %v, want the deadline exceeded", err)
	}
}

// A schema of a later version is left alone.
func TestNewerSchema(t *testing.T) {
	server := pgtest.Start(t)
	r := start(t, server.URL(), apikey.Options{})
	if _, err := r.db.Exec(`INSERT INTO weir_schema (version) VALUES (1000)`); err != nil {
		t.Fatal(err)
	}
	db, store, err := postgres.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := apikey.Open(t.Context(), store, apikey.Options{Timeout: patience}); !errors.Is(err, apikey.ErrNewer) {
		t.Errorf("%v, want ErrNewer", err)
	}
}

// A user without the right to make tables can use those that are there.
func TestOrdinaryUser(t *testing.T) {
	server := pgtest.Start(t)
	owner := start(t, server.URL(), apikey.Options{})
	for _, statement := range []string{`CREATE USER plain`, `GRANT SELECT ON weir_schema TO plain`, `GRANT SELECT, INSERT, UPDATE ON weir_keys, weir_key_changes TO plain`} {
		if _, err := owner.db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	plain := start(t, strings.Replace(server.URL(), "weir@", "plain@", 1), apikey.Options{})
	if _, secret, err := plain.Create(t.Context(), apikey.Spec{Name: "a"}); err != nil || plain.verify(secret) != weir.Verified {
		t.Errorf("%v", err)
	}
}

// An address that cannot be read is an error that keeps the password to itself.
func TestOpenRefuses(t *testing.T) {
	for _, bad := range []string{"postgres://weir:hunter2@db:port/weir", "postgres://weir:hunter2@db/weir?sslmode=maybe"} {
		if _, _, err := postgres.Open(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v: want an error without the password", bad, err)
		}
	}
}
