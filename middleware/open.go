package middleware

import (
	"net/http"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
)

// Open returns a middleware as the configuration file at path says: over the engine of [embedded.Open],
// which is its own. The returned function ends what it runs in the background; it is called when no
// request is on its way any longer.
func Open(path string) (*Middleware, func(), error) {
	return open(func(o embedded.Options) (*embedded.Engine, error) { return embedded.Open(path, o) })
}

// OpenConfig returns a middleware as cfg says, which is [config.Default] with changes: over the engine of
// [embedded.New]. The returned function is that of [Open].
func OpenConfig(cfg *config.Config) (*Middleware, func(), error) {
	return open(func(o embedded.Options) (*embedded.Engine, error) { return embedded.New(cfg, o) })
}

func open(engine func(embedded.Options) (*embedded.Engine, error)) (*Middleware, func(), error) {
	m := New(nil, Options{})
	e, err := engine(embedded.Options{TarpitHeld: m.Held})
	if err != nil {
		return nil, nil, err
	}
	m.engine, m.metrics = e.Engine, e.Metrics()
	return m, e.Close, nil
}

// Metrics serves the metrics of a middleware that [Open] or [OpenConfig] returned, in the Prometheus text
// format. For any other, whose journal somebody else has, it answers 404.
func (m *Middleware) Metrics() http.Handler {
	if m.metrics == nil {
		return http.NotFoundHandler()
	}
	return m.metrics
}
