package app

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/apikey/postgres"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/credential"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/localdb"
)

const (
	// keyPoll is how often PostgreSQL is asked for changed keys: a revoked one goes on for that long at most, and
	// the answer's time.
	keyPoll = 250 * time.Millisecond
	// keyTimeout is how long PostgreSQL may take for an answer, and the disk for a write.
	keyTimeout, diskTimeout = 2 * time.Second, 10 * time.Second
)

// A keyring is the API keys of one database.
type keyring struct {
	*apikey.Keys
	url      string  // of PostgreSQL; empty: the embedded database
	postgres *sql.DB // nil: the embedded database, which others use as well
}

// openKeyring opens the keys that c names; db opens the embedded database.
func openKeyring(c *config.Config, db func() (*localdb.DB, error), log *slog.Logger) (*keyring, error) {
	k := &keyring{url: string(c.Keys.PostgresURL)}
	var store *apikey.Store
	o := apikey.Options{Log: log, Timeout: diskTimeout}
	if k.url != "" {
		var err error
		if k.postgres, store, err = postgres.Open(k.url); err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		o.Poll, o.Timeout = keyPoll, keyTimeout
	} else {
		embedded, err := db()
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		store = apikey.NewStore(embedded.SQL(), func(context.Context) error { return embedded.Migrate("keys", apikey.Tables()) })
	}
	var err error
	if k.Keys, err = apikey.Open(context.Background(), store, o); err == nil {
		return k, nil
	}
	if k.postgres != nil {
		err = errors.Join(err, k.postgres.Close())
	}
	return nil, fmt.Errorf("keys: %w", err)
}

// close ends what follows the database, and the connections to one that is ours alone.
func (k *keyring) close() error {
	if k == nil {
		return nil
	}
	k.Keys.Close()
	if k.postgres == nil {
		return nil
	}
	return k.postgres.Close()
}

// keysFor returns the keys that c names: those in use where they are the same, else newly opened ones, or nil where
// requests are asked for none. A key of a plan that c lacks is an error.
func (a *App) keysFor(c *config.Config) (*keyring, error) {
	if !c.ReadsKeys() {
		return nil, nil
	}
	k := a.keys.Load()
	if k == nil || k.url != string(c.Keys.PostgresURL) {
		var err error
		if k, err = openKeyring(c, func() (*localdb.DB, error) { return a.store.database(c.DataDir) }, a.log); err != nil {
			return nil, err
		}
	}
	if err := straying(c, k.Keys); err != nil {
		a.dropKeys(k)
		return nil, err
	}
	return k, nil
}

// straying returns an error if there is a key of a plan that c lacks.
func straying(c *config.Config, k *apikey.Keys) error {
	var problems []config.Problem
	strays := k.Strays(planNames(c))
	for _, plan := range slices.Sorted(maps.Keys(strays)) {
		problems = append(problems, c.Problem("plans", fmt.Sprintf("the API key %s has the plan %s, which is not there", strays[plan], plan),
			"give that plan, or revoke its keys, as listed by weir key list --plan "+plan))
	}
	if problems == nil {
		return nil
	}
	return &ConfigError{Problems: problems}
}

func planNames(c *config.Config) map[string]bool {
	names := map[string]bool{}
	for name := range c.Plans {
		names[name] = true
	}
	return names
}

// keySettings are what c says of keys.
func keySettings(c *config.Config) apikey.Settings {
	return apikey.Settings{
		Header: textproto.CanonicalMIMEHeaderKey(c.Keys.Header), Bearer: c.Keys.Bearer, Query: c.Keys.Query,
		Plans: planNames(c), Grace: time.Duration(c.Keys.Grace),
	}
}

// dropKeys closes keys that were opened in vain, unless they are those in use.
func (a *App) dropKeys(k *keyring) {
	if k == a.keys.Load() {
		return
	}
	if err := k.close(); err != nil {
		a.log.Warn("closing the database of API keys", "err", err)
	}
}

// swapKeys puts next in the place of the keys in use, which end if they are others.
func (a *App) swapKeys(next *keyring) {
	if prev := a.keys.Swap(next); prev != next {
		if err := prev.close(); err != nil {
			a.log.Warn("closing the database of API keys", "err", err)
		}
	}
}

// knownKeys are the keys in use, or nil.
func (a *App) knownKeys() *apikey.Keys {
	if k := a.keys.Load(); k != nil {
		return k.Keys
	}
	return nil
}

// keyGauges are what metrics tell of the keys in use, or nil.
func (a *App) keyGauges() *journal.APIKeys {
	k := a.knownKeys()
	if k == nil {
		return nil
	}
	return &journal.APIKeys{Known: k.Known(), Age: k.Age(), Errors: k.Errors(), Checks: k.Checks()}
}

// OpenKeys opens the API keys that a configuration names, for an operator where no Weir runs that would be asked:
// the embedded database has one holder. It returns the admin API as far as it is about keys, and what closes it.
func OpenKeys(o Options) (api http.Handler, closeAll func() error, err error) {
	l := Load(o)
	if err := l.Err(); err != nil {
		return nil, nil, err
	}
	var db *localdb.DB
	k, err := openKeyring(l.Config, func() (_ *localdb.DB, err error) { db, err = localdb.Open(l.Config.DataDir); return db, err }, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	closeAll = func() error {
		err := k.close()
		if db != nil {
			err = cmp.Or(err, db.Close())
		}
		return err
	}
	return admin.New(admin.Options{
		Local: admin.Socket, Keys: func() *apikey.Keys { return k.Keys },
		Config: func() admin.InForce { return admin.InForce{Config: l.Config} }, Trail: admin.NewTrail(l.Config.DataDir),
	}), closeAll, nil
}

// keyPlaces are where API keys are taken off what passes, as c says; nil: they are not.
func keyPlaces(c *config.Config) *credential.Places {
	if !c.ReadsKeys() || c.Keys.ForwardSecret {
		return nil
	}
	s := keySettings(c)
	return &credential.Places{Header: s.Header, Bearer: s.Bearer, Query: s.Query}
}
