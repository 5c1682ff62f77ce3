package envoyrls

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

const (
	// mostSeries is how many series there are, and mostAsked how many metrics with asked values in their names,
	// which have at most longestMetric bytes. What is above that is counted under the key other.
	mostSeries    = 1 << 16
	mostAsked     = 1 << 12
	longestMetric = 256

	otherKey = "other"
	// overrideMetric is the metric of limits that descriptors bring along.
	overrideMetric = "override"

	// maxScrapes is how many scrapes are served at once; more are answered 503.
	maxScrapes = 4
)

// metrics are the numbers of envoyproxy/ratelimit.
type metrics struct {
	registry *prometheus.Registry
	seconds  prometheus.Histogram

	requests, storeFailures, badRequests atomic.Uint64
	globalShadow, loads, loadFailures    atomic.Uint64

	mu      sync.RWMutex
	series  map[seriesName]*series
	byAsked map[string]*series // by a metric, which begins with its domain, that has asked values
	asked   int                // how many of these there are
}

// A seriesName are the labels of a series. Levels below the second are summed.
type seriesName struct{ domain, key1, key2 string }

// A series counts the hits of one metric.
type series struct {
	total, over, near, within, shadow atomic.Uint64
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), series: map[seriesName]*series{}, byAsked: map[string]*series{},
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ratelimit_service_response_time_seconds", Help: "Time that a call took.",
			ConstLabels: prometheus.Labels{"grpc_method": method},
			Buckets:     []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .015, .02, .05, .1},
		}),
	}
	m.registry.MustRegister(m.seconds, m)
	return m
}

// method is the only one.
const method = "ShouldRateLimit"

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// took notes a call's end.
func (m *metrics) took(d time.Duration, err error) {
	m.requests.Add(1)
	m.seconds.Observe(d.Seconds())
	if err != nil && status.Code(err) != codes.Unavailable {
		m.badRequests.Add(1)
	}
}

// configured returns the series of a limit of a configuration.
func (m *metrics) configured(domain, metric string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(nameOf(domain, metric))
}

// override returns the series of all limits that descriptors of a domain bring along.
func (m *metrics) override(domain string) *series {
	return m.askedFor(domain, domain+"."+overrideMetric)
}

// askedFor returns the series of a metric that has asked values in it.
func (m *metrics) askedFor(domain, metric string) *series {
	rest := seriesName{domain: valid(descriptors.StatName(domain)), key1: otherKey}
	m.mu.RLock()
	s, full := m.byAsked[metric], m.asked >= mostAsked || len(metric) > longestMetric
	if s == nil && full {
		s = m.series[rest]
	}
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if full {
		return m.find(rest)
	}
	if s = m.byAsked[metric]; s == nil {
		s = m.find(nameOf(domain, metric))
		m.byAsked[strings.Clone(metric)] = s
		m.asked++
	}
	return s
}

// find returns the series of that name. m.mu is held.
func (m *metrics) find(name seriesName) *series {
	s := m.series[name]
	if s == nil && len(m.series) >= mostSeries {
		name = seriesName{domain: otherKey, key1: otherKey}
		s = m.series[name]
	}
	if s == nil {
		s = new(series)
		m.series[name] = s
	}
	return s
}

// nameOf returns the labels of a metric DOMAIN.KEY[.KEY …] as upstream's statistics are mapped.
func nameOf(domain, metric string) seriesName {
	keys := descriptors.StatName(strings.TrimPrefix(metric, domain+"."))
	n := seriesName{domain: valid(descriptors.StatName(domain))}
	n.key1, n.key2, _ = strings.Cut(valid(keys), ".")
	n.key2, _, _ = strings.Cut(n.key2, ".")
	return n
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// note counts the hits of a descriptor by the store's answer. Hits that cross a line are split between the
// counters of its two sides.
func (s *series) note(a *asked, st *weir.Status) {
	n, most, near := a.n, a.limit.counted.Max, a.limit.near
	after := most - st.Remaining // where the counter stands, at least
	add(&s.total, n)
	if st.Allowed || a.refund {
		add(&s.within, n)
		if !st.Degraded {
			add(&s.near, min(n, after-near))
		}
		return
	}
	if a.limit.from.Shadow {
		add(&s.shadow, n)
	}
	past := after - most
	if st.Degraded || past <= 0 || past >= n {
		add(&s.over, n)
		return
	}
	add(&s.over, past)
	add(&s.near, most-max(near, after-n))
}

func add(to *atomic.Uint64, n int64) {
	if n > 0 {
		to.Add(uint64(n))
	}
}

// hitFamilies are the counters of every series.
var hitFamilies = [...]struct {
	name, help string
	of         func(*series) *atomic.Uint64
}{
	{"total_hits", "Hits.", func(s *series) *atomic.Uint64 { return &s.total }},
	{"over_limit", "Hits above the limit.", func(s *series) *atomic.Uint64 { return &s.over }},
	{"near_limit", "Hits near the limit.", func(s *series) *atomic.Uint64 { return &s.near }},
	{"within_limit", "Hits within the limit.", func(s *series) *atomic.Uint64 { return &s.within }},
	{"shadow_mode", "Hits above the limit that shadow_mode let pass.", func(s *series) *atomic.Uint64 { return &s.shadow }},
}

// Describe implements prometheus.Collector: what there is depends on the configuration.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A series that was never used is not told of.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.RLock()
	all := maps.Clone(m.series)
	m.mu.RUnlock()
	for _, f := range hitFamilies {
		one := prometheus.NewDesc("ratelimit_service_rate_limit_"+f.name, f.help, []string{"domain", "key1"}, nil)
		two := prometheus.NewDesc("ratelimit_service_rate_limit_"+f.name, f.help, []string{"domain", "key1", "key2"}, nil)
		for name, s := range all {
			switch n := f.of(s).Load(); {
			case n == 0:
			case name.key2 == "":
				to <- counterMetric(one, n, name.domain, name.key1)
			default:
				to <- counterMetric(two, n, name.domain, name.key1, name.key2)
			}
		}
	}
	m.collectService(to)
}

func (m *metrics) collectService(to chan<- prometheus.Metric) {
	errs := prometheus.NewDesc("ratelimit_service_should_rate_limit_error", "Calls that could not be answered.", []string{"err_type"}, nil)
	to <- counterMetric(errs, m.storeFailures.Load(), "redis_error")
	to <- counterMetric(errs, m.badRequests.Load(), "service_error")
	to <- counterMetric(prometheus.NewDesc("ratelimit_service_total_requests", "Calls.", []string{"grpc_method"}, nil), m.requests.Load(), method)
	for name, n := range map[string]*atomic.Uint64{
		"config_load_success": &m.loads, "config_load_error": &m.loadFailures, "global_shadow_mode": &m.globalShadow,
	} {
		to <- counterMetric(prometheus.NewDesc("ratelimit_service_"+name, "As in envoyproxy/ratelimit.", nil, nil), n.Load())
	}
}

func counterMetric(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
