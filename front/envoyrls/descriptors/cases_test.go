package descriptors

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
)

// cases are what was seen when envoyproxy/ratelimit ran with our configurations and requests.
type cases struct {
	Groups []struct {
		Name      string
		Files     map[string]string
		Env       map[string]string
		Steps     []step
		StoreKeys map[string]int `json:"store_keys"`
		Metrics   []string
	}
	Config []struct {
		Name     string
		YAML     string
		Accepted bool
	}
}

type step struct {
	Request struct {
		Domain      string
		Descriptors []struct{ Entries []Entry }
	}
	HTTP   int
	Expect struct{ Statuses []status }
}

// A status is what a step says of one descriptor; all zero where no limit applies.
type status struct {
	Limit uint32
	Unit  string
	Name  string
}

func readCases(t testing.TB) cases {
	t.Helper()
	data, err := os.ReadFile("../testdata/envoy-ratelimit.json")
	if err != nil {
		t.Fatal(err)
	}
	var c cases
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// sources returns files in the order of their names, as Load reads them.
func sources(files map[string]string) (all []Source) {
	for _, name := range sortedKeys(files) {
		all = append(all, Source{File: name, Content: []byte(files[name])})
	}
	return all
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// What that program accepts is accepted, what it refuses is refused.
func TestConfigurationCases(t *testing.T) {
	for _, c := range readCases(t).Config {
		set, problems := Parse([]Source{{"c.yaml", []byte(c.YAML)}}, Options{})
		if accepted := set != nil; accepted != c.Accepted || accepted == config.HasErrors(problems) {
			t.Errorf("%s: accepted %v, want %v; problems %v", c.Name, accepted, c.Accepted, problems)
		}
	}
}

// Each descriptor of each step has the limit that that program found, and the counters that are then
// charged are those that it wrote to Redis.
func TestMatchingCases(t *testing.T) {
	for _, g := range readCases(t).Groups {
		set, problems := Parse(sources(g.Files), Options{MergeDomains: g.Env["MERGE_DOMAIN_CONFIG"] == "true"})
		if set == nil {
			if g.Name != "no merge" {
				t.Errorf("%s: %v", g.Name, problems)
			}
			continue
		}
		keys, metrics := map[string]bool{}, map[string]bool{}
		for _, s := range g.Steps {
			if s.HTTP != 400 { // what the service refuses before it looks
				walkStep(t, g.Name, set, s, g.Env["CACHE_KEY_PREFIX"], keys, metrics)
			}
		}
		if diff := cmp.Diff(sortedKeys(g.StoreKeys), sortedKeys(keys)); diff != "" {
			t.Errorf("%s: store keys (-want +got):\n%s", g.Name, diff)
		}
		for name := range hitMetrics(g.Metrics) {
			if !metrics[name] {
				t.Errorf("%s: no metric %s among %v", g.Name, name, sortedKeys(metrics))
			}
		}
	}
}

// walkStep asks for the descriptors of s, and notes the counters and metrics that they lead to.
func walkStep(t *testing.T, group string, set *Set, s step, prefix string, keys, metrics map[string]bool) {
	t.Helper()
	var m Match
	for i, d := range s.Request.Descriptors {
		set.Find(s.Request.Domain, d.Entries, &m)
		var got status
		if m.Limit != nil && !m.Limit.Unlimited {
			got = status{m.Limit.PerUnit, strings.ToUpper(m.Limit.Unit.String()), m.Limit.Name}
			keys[storeKey(prefix+s.Request.Domain, m.Entries)] = true
			metrics[StatName(m.Metric)] = true
		}
		if diff := cmp.Diff(s.Expect.Statuses[i], got); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", group, d.Entries, diff)
		}
	}
}

// storeKey is the key that envoyproxy/ratelimit counts under, without the window's start.
func storeKey(domain string, entries []Entry) string {
	key := domain + "_"
	for _, e := range entries {
		key += e.Key + "_" + e.Value + "_"
	}
	return key + "<window start>"
}

// hitMetrics returns the statistics that lines of a Prometheus exposition count hits of, as far as the
// labels tell: two levels.
func hitMetrics(lines []string) map[string]bool {
	names := map[string]bool{}
	for _, line := range lines {
		labels, ok := strings.CutPrefix(line, "ratelimit_service_rate_limit_total_hits{")
		if !ok {
			continue
		}
		name := strings.Join(quoted(labels), ".")
		names[name] = true
	}
	return names
}

// quoted returns what stands in quotes.
func quoted(s string) (all []string) {
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	return all
}
