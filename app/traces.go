package app

import (
	"context"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/tracing"
)

// traceWait is how long spans may take to be sent when nobody traces any longer.
const traceWait = 3 * time.Second

// exporter returns what sends spans where c says: the one in use, a new one, or nil for nowhere.
func (a *App) exporter(c *config.Config) (*tracing.Exporter, error) {
	switch endpoint := c.Tracing.OTLPEndpoint; {
	case endpoint == "":
		return nil, nil
	case a.traces != nil && endpoint == a.config.Tracing.OTLPEndpoint:
		return a.traces, nil
	default:
		return tracing.Open(tracing.Options{Endpoint: endpoint, Version: a.options.Version, Log: a.log})
	}
}

// tracer returns what traces by c, or nil without an exporter.
func (a *App) tracer(e *tracing.Exporter, c *config.Config) engine.Tracer {
	if e == nil {
		return nil
	}
	return e.Tracer(a.view(c))
}

// view is what c lets a collector know.
func (a *App) view(c *config.Config) tracing.View {
	v := tracing.View{Sample: c.Tracing.Sample, HidePath: a.journal.HidePath, HideHost: a.journal.HideHost}
	if c.Log.Addresses == "full" {
		v.Addresses = tracing.Told
	}
	return v
}

// endTraces closes e, unless it is nil or still in use.
func (a *App) endTraces(e *tracing.Exporter) {
	if e == nil || e == a.traces {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceWait)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		a.log.Warn(err.Error())
	}
}
