//go:build !prometheus

package journal

import (
	"net/http"

	"github.com/weirgate/weir"
)

// metrics stands in for the exported metrics where the Prometheus modules are not to be had.
type metrics struct{}

func newMetrics(*counts, *diagnosis, Options) *metrics { return &metrics{} }

func (m *metrics) observe(*weir.Decision, weir.Outcome) {}

func (m *metrics) handler() http.Handler { return http.NotFoundHandler() }
