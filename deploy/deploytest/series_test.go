package deploytest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/redistest"
)

// families are what a scrape has: by metric, by label, the values.
type families map[string]map[string][]string

var (
	sample  = regexp.MustCompile(`(?m)^([a-z_]\w*)(?:\{(.*)\})? \S+$`)
	labels  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	matcher = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)

	// selector is a metric with what stands in braces after it.
	selector = regexp.MustCompile(`\b((?:weir|go|process)_\w+)(?:\{([^}]*)\})?`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
)

func parseScrape(text string) families {
	all := families{}
	for _, s := range sample.FindAllStringSubmatch(text, -1) {
		if all[s[1]] == nil {
			all[s[1]] = map[string][]string{}
		}
		for _, l := range labels.FindAllStringSubmatch(s[2], -1) {
			all[s[1]][l[1]] = append(all[s[1]][l[1]], l[2])
		}
	}
	return all
}

// ofPrometheus are the labels that Prometheus adds to what it scrapes.
var ofPrometheus = []string{"job", "instance"}

// lacks says what an expression asks for and the scrape does not have: metrics, labels, and values of labels.
func (f families) lacks(expr string) []string {
	var lacking []string
	grouped := slices.Clone(ofPrometheus)
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		has, ok := f[s[1]]
		if !ok {
			lacking = append(lacking, s[1])
			continue
		}
		for label := range has {
			grouped = append(grouped, label)
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			lacking = append(lacking, lackingValues(s[1], has, m)...)
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(g[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(grouped, label) {
				lacking = append(lacking, "label "+label)
			}
		}
	}
	return lacking
}

// lackingValues judges one matcher: label, operator, and a value or several with | between.
func lackingValues(metric string, has map[string][]string, m []string) []string {
	if slices.Contains(ofPrometheus, m[1]) {
		return nil
	}
	var lacking []string
	for _, value := range strings.Split(m[3], "|") {
		if !slices.Contains(has[m[1]], value) {
			lacking = append(lacking, fmt.Sprintf("%s{%s=%q}", metric, m[1], value))
		}
	}
	return lacking
}

func TestLackingIsFound(t *testing.T) {
	f := parseScrape("# HELP weir_a A.\nweir_a{x=\"1\",y=\"a|b\"} 3\nweir_a{x=\"2\"} 4\nweir_b 0\n")
	for expr, want := range map[string]string{
		`sum by (x) (rate(weir_a{job="j", x=~"1|2"}[5m])) / on (job) weir_b`: "",
		`weir_c`:                 "weir_c",
		`weir_a{z="1"}`:          `weir_a{z="1"}`,
		`weir_a{x=~"1|3"}`:       `weir_a{x="3"}`,
		`sum by (y, q) (weir_a)`: "label q",
		`sum by (x) (weir_b)`:    "label x",
	} {
		if got := strings.Join(f.lacks(expr), ", "); got != want {
			t.Errorf("%s lacks %q, want %q", expr, got, want)
		}
	}
}

// everything is a configuration under which each metric and each value of a label can be seen.
const everything = `
listen: %q
admin: %q
upstream: %q
metrics: {top_clients: 3}
store: {redis: {url: %q, timeout: 5s}}
rules:
  - {name: dropped, path: /drop, action: drop, limits: [{rate: 0/1m, per: client}]}
  - {name: held, path: /hold, action: tarpit, tarpit: {delay: 1ms}, limits: [{rate: 0/1m, per: client}]}
  - {name: trial, path: /try, mode: shadow, limits: [{rate: 0/1m, per: client}]}
`

// TestEveryExpressionFindsItsSeries compares what alerts and dashboard ask with what a real process exposes once
// it has had traffic of each kind.
func TestEveryExpressionFindsItsSeries(t *testing.T) {
	t.Parallel()
	weir, dir := weirBinary(t), t.TempDir()
	redis := redistest.Start(t)
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	listen, admin := proctest.Free(t), proctest.Free(t)
	file := write(t, dir, "weir.yaml", fmt.Sprintf(everything, listen, admin, upstream.URL, redis.URL()))
	p := run(t, listen, dir, weir, "run", "-c", file)
	ask(t, listen)
	err := proctest.Await(proctest.Patience, func() error { return allFound(t, admin) })
	if err != nil {
		t.Errorf("%v\n%s", err, p.Log())
	}
}

// ask makes traffic of each kind.
func ask(t *testing.T, listen string) {
	t.Helper()
	for _, target := range []string{"/", "/drop", "/hold", "/try", "/?id=" + url.QueryEscape("1' OR '1'='1")} {
		res, err := http.Get("http://" + listen + target)
		if err != nil && target != "/drop" {
			t.Fatal(err)
		}
		if err == nil {
			res.Body.Close()
		}
	}
	c, err := net.Dial("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "this is no HTTP\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c) // until it is closed
}

// allFound returns nil once a scrape has all that is asked for.
func allFound(t *testing.T, admin string) error {
	t.Helper()
	res, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	scraped := parseScrape(string(text))
	var lacking []error
	for _, r := range alertRules(t) {
		for _, what := range scraped.lacks(r.Expr) {
			lacking = append(lacking, fmt.Errorf("the rule %s%s: there is no %s", r.Alert, r.Record, what))
		}
	}
	for title, exprs := range expressions(t) {
		for _, what := range scraped.lacks(strings.Join(exprs, "\n")) {
			lacking = append(lacking, fmt.Errorf("the panel %q: there is no %s", title, what))
		}
	}
	return errors.Join(lacking...)
}
