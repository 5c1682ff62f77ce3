package stickexport

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// An Exporter serves the top of a table as metrics. It is safe for concurrent use.
type Exporter struct {
	reader   *Reader
	interval time.Duration
	log      *slog.Logger
	now      func() time.Time

	up, used, size, top, took *prometheus.Desc

	mu      sync.Mutex
	read    time.Time     // when HAProxy was asked last; zero: never
	elapsed time.Duration // until it had answered
	ranking *Ranking      // nil: it did not
	failed  string        // what was logged last, until it is over
}

// NewExporter returns an exporter that asks HAProxy at most once per interval, however often it is asked
// itself. log is told when the table cannot be read, and when it can again.
func NewExporter(r *Reader, interval time.Duration, log *slog.Logger) *Exporter {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("haproxy_sticktable_top"+name, help, labels, prometheus.Labels{"table": r.options.Table})
	}
	return &Exporter{
		reader: r, interval: interval, log: log, now: time.Now,
		up:   desc("_up", "Whether the table could be read."),
		used: desc("_used", "Entries that the table holds."),
		size: desc("_size", "Entries that the table can hold."),
		took: desc("_read_seconds", "How long the last reading took."),
		top:  desc("", "The largest values of the table, by rank.", "data", "rank", "key"),
	}
}

// Handler serves the metrics in the Prometheus text format.
func (e *Exporter) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.up, e.used, e.size, e.took, e.top} {
		to <- d
	}
}

// Collect implements prometheus.Collector. There are never more series than entries were asked for, and
// five.
func (e *Exporter) Collect(to chan<- prometheus.Metric) {
	r, took := e.current()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(e.took, took.Seconds())
	if r == nil {
		gauge(e.up, 0)
		return
	}
	gauge(e.up, 1)
	gauge(e.used, float64(r.Used))
	gauge(e.size, float64(r.Size))
	for i := range r.Entries {
		entry := &r.Entries[i]
		gauge(e.top, float64(entry.Value), r.By, strconv.Itoa(entry.Rank), label(entry.Key))
	}
}

// maxLabel is how much of a key becomes a label, in bytes: keys may be what clients send.
const maxLabel = 128

// label returns what of a key becomes a label. HAProxy escapes what is not printable ASCII, but who knows who
// answers.
func label(key string) string {
	key = strings.ToValidUTF8(key, "?")
	if len(key) > maxLabel {
		return strings.ToValidUTF8(key[:maxLabel], "") + "…"
	}
	return key
}

// current returns the last ranking, or asks for a new one if that is old; nil if there is none.
func (e *Exporter) current() (*Ranking, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	began := e.now()
	if !e.read.IsZero() && began.Sub(e.read) < e.interval {
		return e.ranking, e.elapsed
	}
	r, err := e.reader.Read(context.Background())
	e.tell(err)
	e.read, e.elapsed, e.ranking = began, e.now().Sub(began), r
	return r, e.elapsed
}

// tell logs that the table cannot be read, or can again, when that changes.
func (e *Exporter) tell(err error) {
	switch {
	case err != nil && err.Error() != e.failed:
		e.failed = err.Error()
		e.log.Warn("the stick table cannot be read", "err", err)
	case err == nil && e.failed != "":
		e.failed = ""
		e.log.Info("the stick table can be read again")
	}
}
