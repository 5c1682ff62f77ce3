package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
)

// Open returns a middleware that follows the configuration file at path and counts in memory. What the
// file says of listeners and upstreams is passed over. Refusals are logged to [slog.Default]. The
// returned function ends what the middleware runs in the background; it is called when no request is
// on its way any longer.
func Open(path string) (*Middleware, func(), error) {
	cfg, problems, err := config.Load(path, os.Environ())
	if err != nil {
		return nil, nil, err
	}
	if config.HasErrors(problems) {
		return nil, nil, unusable(problems)
	}
	p, problems := policy.Compile(cfg)
	if config.HasErrors(problems) {
		return nil, nil, unusable(problems)
	}
	if cfg.Store.Redis.URL != "" {
		return nil, nil, fmt.Errorf("%s: store.redis: the middleware counts in memory only", path)
	}
	store := memory.New(memory.Options{MaxKeys: cfg.Store.Memory.MaxKeys})
	j := journal.New(journal.Options{
		Log:               slog.Default(),
		Addresses:         journal.Addresses(cfg.Log.Addresses),
		RefusalsPerSecond: cfg.Log.RefusalsPerSecond,
		Rules:             p.Names(),
	})
	s := &engine.Snapshot{Policy: p, Store: store, Respond: responder(cfg)}
	stop := background(j.Run)
	return New(engine.New(s, j, time.Now), Options{}), func() { stop(); store.Close() }, nil
}

func responder(cfg *config.Config) *respond.Responder {
	return respond.New(respond.Options{
		Headers:         cfg.Headers,
		LegacyReset:     cfg.LegacyReset,
		ProblemTypeBase: cfg.ProblemTypeBase,
		HTML:            cfg.HTML,
		AllowOrigin:     cfg.CORS.AllowOrigin,
	})
}

// background runs f until the returned function is called, which waits for its end.
func background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() { cancel(); running.Wait() }
}

// unusable returns every problem that is not a mere warning as one error.
func unusable(problems []config.Problem) error {
	var errs []error
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, errors.New(p.String()))
		}
	}
	return errors.Join(errs...)
}
