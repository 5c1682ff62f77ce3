package journal

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
	"github.com/weirgate/weir/internal/racing"
)

// scrape returns the value of each series, by its name with labels.
func scrape(t *testing.T, j *Journal) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	j.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: HTTP status %d: %s", w.Code, w.Body)
	}
	series := make(map[string]float64)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, text, found := cutLast(strings.TrimSuffix(line, "\n"), " ")
		value, err := strconv.ParseFloat(text, 64)
		if !found || err != nil {
			t.Fatalf("line %q is no sample: %v", line, err)
		}
		series[name] = value
	}
	return series
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// withPrefix returns the series whose names begin with one of prefixes.
func withPrefix(series map[string]float64, prefixes ...string) map[string]float64 {
	found := make(map[string]float64)
	for name, value := range series {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			found[name] = value
		}
	}
	return found
}

func TestScrape(t *testing.T) {
	j := New(Options{
		Rules: []string{"search", "static"}, Version: "1.2.3", ConfigHash: "ff",
		Gauges: Gauges{
			Enabled:         func() bool { return false },
			MemoryKeys:      func() int { return 7 },
			MemoryEvictions: func() uint64 { return 2 },
			TarpitHeld:      func() int { return 3 },
			StoreFindings:   func() map[string]bool { return map[string]bool{"evicts": true, "read_only": false} },
			StoreFailures:   func() map[string]uint64 { return map[string]uint64{"timeout": 4, "short_deadline": 0} },
		},
	})
	j.Record(passed(search), ok)
	j.Record(refused(search, weir.Drop), weir.Outcome{Duration: 2 * time.Second})
	shadowed := passed(search)
	shadowed.Degraded = true
	shadowed.Client.Chain.Entries = 2
	shadowed.Statuses = append(shadowed.Statuses, weir.Status{Limit: trial})
	j.Record(shadowed, weir.Outcome{HTTP: 502, Upstream: time.Second, Err: fmt.Errorf("connection refused")})

	want := map[string]float64{
		"weir_asked_again_total":                                            0,
		`weir_build_info{version="1.2.3"}`:                                  1,
		`weir_client_chain_entries_count`:                                   3,
		`weir_client_chain_entries_sum`:                                     2,
		`weir_client_resolution_total{outcome="all_trusted"}`:               0,
		`weir_client_resolution_total{outcome="direct"}`:                    3,
		`weir_client_resolution_total{outcome="forwarded"}`:                 0,
		`weir_client_resolution_total{outcome="header"}`:                    0,
		`weir_client_resolution_total{outcome="peer_only"}`:                 0,
		`weir_client_resolution_total{outcome="unresolved"}`:                0,
		`weir_config_hash`:                                                  255,
		`weir_config_reload_total{result="failure"}`:                        0,
		`weir_config_reload_total{result="success"}`:                        0,
		`weir_decisions_total{action="drop",front="proxy",rule="search"}`:   1,
		`weir_decisions_total{action="pass",front="proxy",rule="search"}`:   2,
		`weir_decisions_total{action="reject",front="proxy",rule="search"}`: 0,
		`weir_enabled`:                                           0,
		`weir_memory_evictions_total`:                            2,
		`weir_memory_keys`:                                       7,
		`weir_request_duration_seconds_count`:                    3,
		`weir_request_duration_seconds_sum`:                      2.02,
		`weir_responses_total{class="1xx"}`:                      0,
		`weir_responses_total{class="2xx"}`:                      1,
		`weir_responses_total{class="3xx"}`:                      0,
		`weir_responses_total{class="4xx"}`:                      0,
		`weir_responses_total{class="5xx"}`:                      1,
		`weir_responses_total{class="none"}`:                     1,
		`weir_shadow_refusals_total{rule="search"}`:              1,
		`weir_store_checks_total{backend="memory"}`:              2,
		`weir_store_fallback_total`:                              1,
		`weir_store_failures_total{kind="short_deadline"}`:       0,
		`weir_store_failures_total{kind="timeout"}`:              4,
		`weir_store_finding{finding="evicts"}`:                   1,
		`weir_store_finding{finding="read_only"}`:                0,
		"weir_store_duration_seconds_count":                      0,
		"weir_store_duration_seconds_sum":                        0,
		`weir_tarpit_held`:                                       3,
		`weir_upstream_duration_seconds_count`:                   2,
		`weir_upstream_duration_seconds_sum`:                     1.015,
		`weir_upstream_failures_total`:                           1,
		`weir_waf_blocks_total{namespace="search",rule="other"}`: 0,
		`weir_waf_blocks_total{namespace="static",rule="other"}`: 0,
		`weir_waf_duration_seconds_count{ruleset="crs"}`:         0,
		`weir_waf_duration_seconds_count{ruleset="fast"}`:        0,
		`weir_waf_duration_seconds_sum{ruleset="crs"}`:           0,
		`weir_waf_duration_seconds_sum{ruleset="fast"}`:          0,
		`weir_waf_errors_total{reason="panic"}`:                  0,
		`weir_waf_errors_total{reason="saturated"}`:              0,
		`weir_waf_insights_total{result="failed"}`:               0,
		`weir_waf_insights_total{result="found"}`:                0,
		`weir_waf_insights_total{result="pass"}`:                 0,
		`weir_waf_verdicts_total{verdict="block"}`:               0,
		`weir_waf_verdicts_total{verdict="detect"}`:              0,
		`weir_waf_verdicts_total{verdict="fail_open"}`:           0,
		`weir_waf_verdicts_total{verdict="off"}`:                 3,
		`weir_waf_verdicts_total{verdict="pass"}`:                0,
		`weir_waf_verdicts_total{verdict="skip"}`:                0,
	}
	got := withPrefix(scrape(t, j), "weir_")
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return strings.Contains(name, "_bucket{") || strings.HasPrefix(name, "weir_client_diagnosis")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestRuntimeAndProcessAreExported(t *testing.T) {
	series := scrape(t, New(Options{}))
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if series[name] <= 0 {
			t.Errorf("%s is %v, want more than 0", name, series[name])
		}
	}
}

// What nobody knows is not exported as 0.
func TestUnknownGaugesAreAbsent(t *testing.T) {
	got := withPrefix(scrape(t, New(Options{})), "weir_memory_", "weir_tarpit_", "weir_upstream_in_flight")
	if len(got) != 0 {
		t.Errorf("exported %v, want none", got)
	}
}

func TestReloadsAreCounted(t *testing.T) {
	j := New(Options{ConfigHash: "0a"})
	j.Reloaded("0b")
	j.ReloadFailed(fmt.Errorf("no such file"))
	j.ReloadFailed(fmt.Errorf("no such file"))
	want := map[string]float64{
		"weir_config_hash":                           11,
		`weir_config_reload_total{result="success"}`: 1,
		`weir_config_reload_total{result="failure"}`: 2,
	}
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_config_")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// Public case MET-03: 50 reloads that add, rename and remove rules.
func TestSeriesOfRemovedRulesVanish(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	for i := range 50 {
		added := fmt.Sprintf("rule%d", i)
		j.SetRules([]string{added, "search"})
		j.Record(passed(search), ok)
		j.Record(passed(&weir.Rule{Name: added}), ok)
		want := map[string]float64{
			`weir_decisions_total{action="pass",front="proxy",rule="` + added + `"}`:   1,
			`weir_decisions_total{action="reject",front="proxy",rule="` + added + `"}`: 0,
			`weir_decisions_total{action="pass",front="proxy",rule="search"}`:          float64(i + 1),
			`weir_decisions_total{action="reject",front="proxy",rule="search"}`:        0,
		}
		if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_decisions_total")); diff != "" {
			t.Fatalf("reload %d (-want +got):\n%s", i, diff)
		}
	}
}

// Public case MET-04: no counter of a rule that stays ever falls, and none misses a request.
func TestCountersNeverFall(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	const series = `weir_decisions_total{action="pass",front="proxy",rule="search"}`
	for i := range 12 {
		for range 500 {
			j.Record(passed(search), ok)
		}
		j.SetRules([]string{fmt.Sprint("other rule ", i), "search"})
		if got, want := scrape(t, j)[series], float64(500*(i+1)); got != want {
			t.Fatalf("after reload %d: %v requests counted, want %v", i, got, want)
		}
	}
}

// Names that would clash as labels share a series, and none breaks the scrape.
func TestAnyRuleNameCanBeScraped(t *testing.T) {
	names := []string{"none", "other", "", "a\xff", "a\xfe", "a\uFFFD", "<b>", "\"\\\n", "search", "search"}
	j := New(Options{Rules: names})
	for _, name := range names {
		j.Record(passed(&weir.Rule{Name: name}), ok)
	}
	j.Record(passed(nil), ok)
	got := withPrefix(scrape(t, j), "weir_decisions_total{action=\"pass\"")
	want := map[string]float64{}
	for label, n := range map[string]float64{"none": 2, "other": 1, "": 1, "a\uFFFD": 3, "<b>": 1, `\"\\\n`: 1, "search": 2} {
		want[`weir_decisions_total{action="pass",front="proxy",rule="`+label+`"}`] = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// Public case MET-01: 200,000 clients, 50,000 paths and 1,000 made-up methods and hosts.
func TestSeriesAreBounded(t *testing.T) {
	racing.Skip(t)
	j := New(Options{Rules: []string{"search", "static"}, TopClients: 100, Now: func() time.Time { return noon }})
	flood := func(requests int) map[string]float64 {
		for i := range requests {
			j.Record(stranger(i), weir.Outcome{HTTP: 100 + i%1000, Duration: time.Duration(i) * time.Millisecond})
		}
		return scrape(t, j)
	}
	first := flood(20_000)
	last := flood(200_000)
	if len(last) >= 2000 || len(last) != len(first) {
		t.Errorf("%d series after 20,000 clients, %d after 200,000; want no growth, and fewer than 2,000", len(first), len(last))
	}
	checkLabels(t, last)
}

// stranger returns the i-th of many requests that choose everything they can.
func stranger(i int) *weir.Decision {
	d := from(passed(search), fmt.Sprintf("11.%d.%d.%d", i>>16&255, i>>8&255, i&255))
	d.Request.Path = fmt.Sprint("/strange/", i%50_000)
	d.Request.Method = fmt.Sprint("STRANGE", i%1000)
	d.Request.Host = fmt.Sprint("strange", i%1000, ".example")
	d.Request.Front = fmt.Sprint("strange", i%1000)
	d.Request.Header.Set("User-Agent", fmt.Sprint("strange ", i%1000))
	d.Client.Source = weir.Source(i % sources)
	d.Client.Chain.Entries = uint8(i % (weir.ManyEntries + 1))
	d.Rule = []*weir.Rule{search, static, nil, {Name: fmt.Sprint("strange", i%1000)}}[i%4]
	d.Action = weir.Action(i % actions)
	d.Reason = weir.Reason(fmt.Sprint("strange ", i))
	return d
}

// checkLabels fails for each label of ours that is not known to be bounded.
func checkLabels(t *testing.T, series map[string]float64) {
	t.Helper()
	bounded := map[string]*regexp.Regexp{
		"action":  regexp.MustCompile(`^(pass|reject|drop|tarpit|tag)$`),
		"backend": regexp.MustCompile(`^memory$`),
		"class":   regexp.MustCompile(`^([1-5]xx|none)$`),
		"code":    regexp.MustCompile(`^(` + strings.Join(weir.AllCodes.Names(), "|") + `)$`),
		"front":   regexp.MustCompile(`^(` + strings.Join(frontNames[:], "|") + `)$`),
		"le":      regexp.MustCompile(`^([0-9.]+|[0-9.]+e-05|\+Inf)$`),
		"outcome": regexp.MustCompile(`^(direct|forwarded|header|all_trusted|peer_only|unresolved)$`),
		"result":  regexp.MustCompile(`^(success|failure|pass|found|failed)$`),
		"rule":    regexp.MustCompile(`^(search|static|none|other)$`),
		"rank":    regexp.MustCompile(`^([1-9]|[1-9][0-9]|100)$`),
		"client":  regexp.MustCompile(`^(11\.[0-9.]+\.0/24|unresolved:none)$`), // one of each rank
		"version": regexp.MustCompile(`^$`),

		"namespace": regexp.MustCompile(`^(search|static|none|other)$`),
		"reason":    regexp.MustCompile(`^(panic|saturated)$`),
		"ruleset":   regexp.MustCompile(`^(fast|crs)$`),
		"verdict":   regexp.MustCompile(`^(` + strings.Join(weir.Verdicts(), "|") + `)$`),
	}
	label := regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	for name := range withPrefix(series, "weir_") {
		for _, m := range label.FindAllStringSubmatch(name, -1) {
			if allowed := bounded[m[1]]; allowed == nil || !allowed.MatchString(m[2]) {
				t.Errorf("%s: label %s has the value %q, want one of a bounded set", name, m[1], m[2])
			}
		}
	}
}

// Chains of every length have a bucket of their own up to 6; longer ones share the last.
func TestChainEntries(t *testing.T) {
	j := New(Options{})
	for entries := range weir.ManyEntries + 1 {
		d := passed(search)
		d.Client.Chain.Entries = uint8(entries)
		j.Record(d, ok)
	}
	want := map[string]float64{`weir_client_chain_entries_bucket{le="+Inf"}`: weir.ManyEntries + 1}
	for entries := range weir.ManyEntries {
		want[fmt.Sprintf(`weir_client_chain_entries_bucket{le="%d"}`, entries)] = float64(entries + 1)
	}
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_client_chain_entries_bucket")); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
}

// Every code has its gauge from the start, and those that are found are 1.
func TestDiagnosisGauges(t *testing.T) {
	j := New(Options{})
	want := map[string]float64{}
	for _, code := range weir.AllCodes.Names() {
		want[`weir_client_diagnosis{code="`+code+`"}`] = 0
	}
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_client_diagnosis")); diff != "" {
		t.Errorf("gauges of a new journal (-want +got):\n%s", diff)
	}
	behindUnknownProxy(j, chain.Enough)
	j.diagnose()
	want[`weir_client_diagnosis{code="header.unexpected"}`] = 1
	want[`weir_client_diagnosis{code="one_client"}`] = 1
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_client_diagnosis")); diff != "" {
		t.Errorf("gauges behind an unknown proxy (-want +got):\n%s", diff)
	}
}
