package journal

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirgate/weir"
)

// maxScrapes is how many scrapes are served at once; more are answered 503.
const maxScrapes = 4

// metrics are what is exported. All but one are read from counts at a scrape.
type metrics struct {
	registry *prometheus.Registry
	store    prometheus.Histogram // seconds
}

// rulesets are the only values of the label ruleset.
var rulesets = [...]string{"fast", "crs"}

// rulesetIndex returns the place of a ruleset in rulesets, and their number if it has none.
func rulesetIndex(set string) uint8 {
	for i, name := range rulesets {
		if name == set {
			return uint8(i)
		}
	}
	return uint8(len(rulesets))
}

func newMetrics(c *counts, g *diagnosis, o Options) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		store: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_store_duration_seconds", Help: "Time that a request waited for the shared store.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .017, .02, .05, .1},
		}),
	}
	m.registry.MustRegister(m.store, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, s := range c.spreads() {
		m.registry.MustRegister(s)
	}
	for _, families := range [][]family{decisionFamilies(c), storeFamilies(c, o), firewallFamilies(c), clientFamilies(c, g), processFamilies(c, o), gaugeFamilies(o.Gauges), keyFamilies(o.Gauges.APIKeys)} {
		for _, f := range families {
			m.registry.MustRegister(f)
		}
	}
	return m
}

// waits are the buckets of how long somebody waited, in seconds.
func waits() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// spreads are the histograms of what was decided.
func (c *counts) spreads() []spread {
	spreads := []spread{
		c.spread(&c.durations, "request_duration_seconds", "Time from the decision to the end of the answer.", nil),
		c.spread(&c.upstream, "upstream_duration_seconds", "Time until the upstream's header was there.", nil),
		c.spread(&c.chainEntries, "client_chain_entries", "Entries of the header that the client was looked for in; 7 stands for more, too.", nil),
	}
	for i, name := range rulesets {
		const help = "Time that an inspection took, with the wait for a place."
		spreads = append(spreads, c.spread(&c.inspections[i], "waf_duration_seconds", help, prometheus.Labels{"ruleset": name}))
	}
	return spreads
}

// spread is the metric of one of the histograms of c.
func (c *counts) spread(h *histogram, name, help string, labels prometheus.Labels) spread {
	return spread{prometheus.NewDesc("weir_"+name, help, nil, labels), func() histogram {
		c.mu.Lock()
		defer c.mu.Unlock()
		return h.clone()
	}}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// A family is a metric whose samples are read when it is scraped.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(emit emit)
}

// emit takes one sample and the values of its labels, in order. The values are valid UTF-8.
type emit func(value float64, labels ...string)

// Describe implements prometheus.Collector.
func (f family) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

// Collect implements prometheus.Collector.
func (f family) Collect(ch chan<- prometheus.Metric) {
	f.read(func(value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
	})
}

func counter(name, help string, read func(emit), labels ...string) family {
	return family{prometheus.NewDesc("weir_"+name, help, labels, nil), prometheus.CounterValue, read}
}

func gauge(name, help string, read func(emit), labels ...string) family {
	return family{prometheus.NewDesc("weir_"+name, help, labels, nil), prometheus.GaugeValue, read}
}

// decisionFamilies are about requests.
func decisionFamilies(c *counts) []family {
	return []family{
		counter("decisions_total", "Decisions by front, rule and action.", c.locked(c.emitDecisions), "front", "rule", "action"),
		counter("asked_again_total", "Further asks of a proxy about requests that had passed, which are decided and charged once.", c.number(&c.again)),
		counter("shadow_refusals_total", "Requests that a shadow limit would have refused.", c.locked(c.emitShadow), "rule"),
		counter("refused_connections_total", "Connections, asks of proxies and requests that were refused for a fault, and not by a decision.", c.faults.emit, "fault"),
		counter("responses_total", "Answers by class of their HTTP status.", c.locked(c.emitAnswers), "class"),
		counter("upstream_failures_total", "Requests that the upstream failed.", c.number(&c.upstreamFailures)),
	}
}

// storeFamilies are about who answered hits.
func storeFamilies(c *counts, o Options) []family {
	backend := cmp.Or(o.Backend, "memory")
	return []family{
		counter("store_checks_total", "Hits that were answered, by whom.", c.locked(func(e emit) {
			recalled := uint64(0)
			if o.Gauges.Recalled != nil {
				recalled = o.Gauges.Recalled()
				e(float64(recalled), "deny_cache")
				e(float64(c.local), "local")
			}
			e(float64(c.checks-min(c.checks, recalled)), backend)
		}), "backend"),
		counter("store_fallback_total", "Hits that the store did not answer.", c.number(&c.fallbacks)),
	}
}

// clientFamilies are about how clients are found.
func clientFamilies(c *counts, g *diagnosis) []family {
	return []family{
		counter("client_resolution_total", "Requests by how the client was found.", c.locked(c.emitResolutions), "outcome"),
		gauge("client_diagnosis", "1 while the chain diagnosis has found this.", g.emit, "code"),
	}
}

// processFamilies are about this process and its configuration.
func processFamilies(c *counts, o Options) []family {
	return []family{
		gauge("build_info", "1, with the version of the program.", func(e emit) { e(1, o.Version) }, "version"),
		gauge("config_hash", "First 48 bits of the hash of the configuration in force.", number(c.configHash.Load)),
		counter("config_reload_total", "Reloads of the configuration by their result.", func(e emit) {
			e(float64(c.reloads.Load()), "success")
			e(float64(c.reloadFailures.Load()), "failure")
		}, "result"),
	}
}

// topFamily is the metric of the clients that ask most: as many series as were asked for, however many
// clients there are. Addresses are written as in the log.
func (j *Journal) topFamily() family {
	const help = "Requests within the last hour of the clients that asked most, at least; written as the log writes addresses."
	return gauge("top_client_requests", help, func(e emit) {
		n := int(j.top.Load())
		if n == 0 {
			return
		}
		for i, t := range j.Top(TopQuery{By: ByClient, Within: Hour, Most: n}).Talkers {
			c, _ := weir.ParseKey(t.Key)
			e(float64(t.Requests), strconv.Itoa(i+1), j.masker.client(&c))
		}
	}, "rank", "client")
}

// gaugeFamilies are the numbers that others know.
func gaugeFamilies(g Gauges) []family {
	var families []family
	if g.Enabled != nil {
		families = append(families, gauge("enabled", "0 while every request passes through untouched.", func(e emit) { e(one(g.Enabled())) }))
	}
	if g.MemoryKeys != nil {
		families = append(families, gauge("memory_keys", "Counters held by the store in memory.", number(g.MemoryKeys)))
	}
	if g.MemoryEvictions != nil {
		families = append(families, counter("memory_evictions_total", "Counters forgotten for want of room.", number(g.MemoryEvictions)))
	}
	if g.TarpitHeld != nil {
		families = append(families, gauge("tarpit_held", "Askers held by tarpits.", number(g.TarpitHeld)))
	}
	if g.UpstreamInFlight != nil {
		families = append(families, gauge("upstream_in_flight", "Requests at the upstream.", number(g.UpstreamInFlight)))
	}
	if g.BreakerOpen != nil {
		families = append(families, gauge("store_breaker_open", "1 while the shared store is left alone.", func(e emit) { e(one(g.BreakerOpen())) }))
	}
	if g.StoreFindings != nil {
		families = append(families, gauge("store_finding", "1 while this is to be changed about the shared store.", func(e emit) {
			for name, found := range g.StoreFindings() {
				e(one(found), name)
			}
		}, "finding"))
	}
	if g.StoreFailures != nil {
		families = append(families, counter("store_failures_total", "Questions that the shared store did not answer, by the way in which.", func(e emit) {
			for kind, n := range g.StoreFailures() {
				e(float64(n), kind)
			}
		}, "kind"))
	}
	return append(families, banFamilies(g)...)
}

// banFamilies are about who is kept out.
func banFamilies(g Gauges) []family {
	var families []family
	if g.Bans != nil {
		families = append(families, gauge("bans", "Bans that are known.", number(g.Bans)))
	}
	if g.Penalties != nil {
		families = append(families, counter("penalties_total", "Bans that penalties made.", func(e emit) {
			for name, n := range g.Penalties() {
				e(float64(n), name)
			}
		}, "penalty"))
	}
	if g.PassedOver != nil {
		families = append(families, counter("penalty_offences_passed_over_total", "Offences that no penalty counted, since too many came at once.", number(g.PassedOver)))
	}
	return families
}

// keyFamilies are about API keys. They have no samples where none are read.
func keyFamilies(read func() *APIKeys) []family {
	if read == nil {
		return nil
	}
	number := func(of func(*APIKeys) float64) func(emit) {
		return func(e emit) {
			if keys := read(); keys != nil {
				e(of(keys))
			}
		}
	}
	return []family{
		gauge("api_keys", "API keys that this process knows.", number(func(k *APIKeys) float64 { return float64(k.Known) })),
		gauge("api_keys_age_seconds", "Time since what is known of API keys was true.", number(func(k *APIKeys) float64 { return k.Age.Seconds() })),
		counter("api_keys_database_errors_total", "Questions that the database of API keys did not answer.", number(func(k *APIKeys) float64 { return float64(k.Errors) })),
		counter("api_key_checks_total", "Requests that bore an API key, by what became of it.", func(e emit) {
			if keys := read(); keys != nil {
				for result, n := range keys.Checks {
					e(float64(n), result)
				}
			}
		}, "result"),
	}
}

// one is 1 for yes and 0 for no.
func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// number is the one sample of a metric without labels.
func number[N int | uint64](read func() N) func(emit) {
	return func(e emit) { e(float64(read())) }
}

// number is a metric of one of the numbers of c.
func (c *counts) number(n *uint64) func(emit) {
	return c.locked(func(e emit) { e(float64(*n)) })
}

// locked reads under the lock of c, and emits what it read afterwards.
func (c *counts) locked(read func(emit)) func(emit) {
	type sample struct {
		value  float64
		labels []string
	}
	return func(e emit) {
		var samples []sample
		c.mu.Lock()
		read(func(value float64, labels ...string) { samples = append(samples, sample{value, labels}) })
		c.mu.Unlock()
		for _, s := range samples {
			e(s.value, s.labels...)
		}
	}
}

// emitDecisions leaves out what never happened, but tells how often a rule refused, if only 0, as
// soon as it is in use: an alert on the increase needs to see the beginning.
func (c *counts) emitDecisions(e emit) {
	for _, r := range c.rules.Load().list {
		for front := range r.decisions {
			if !r.used(front) {
				continue
			}
			for action := range r.decisions[front] {
				n := r.decisions[front][action]
				if a := weir.Action(action); n > 0 || a == weir.Pass || a == weir.Reject {
					e(float64(n), frontNames[front], r.label, a.String())
				}
			}
		}
	}
}

// used reports whether the rule decided anything for the front.
func (r *ruleCounts) used(front int) bool {
	for action := range r.decisions[front] {
		if r.decisions[front][action] > 0 {
			return true
		}
	}
	return false
}

func (c *counts) emitShadow(e emit) {
	for _, r := range c.rules.Load().list {
		if n := r.shadow; n > 0 {
			e(float64(n), r.label)
		}
	}
}

func (c *counts) emitAnswers(e emit) {
	for class, name := range [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		e(float64(c.answers[class]), name)
	}
}

func (c *counts) emitResolutions(e emit) {
	for source := range c.resolutions {
		e(float64(c.resolutions[source]), weir.Source(source).String())
	}
}

// emit tells every code, found or not.
func (g *diagnosis) emit(e emit) {
	found := weir.Codes(g.found.Load())
	for code := weir.Codes(1); code&weir.AllCodes != 0; code <<= 1 {
		value := 0.
		if found&code != 0 {
			value = 1
		}
		e(value, codeName(code))
	}
}
