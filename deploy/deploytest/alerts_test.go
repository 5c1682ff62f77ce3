package deploytest_test

import (
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A rule is an alert, or a recording, of alerts.yml.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func alertRules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Unmarshal([]byte(shipped(t, "prometheus/alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	var rules []rule
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func TestAlertsRingWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	succeed(t, "../prometheus", promtool, "check", "rules", "alerts.yml")
	succeed(t, "../prometheus", promtool, "test", "rules", "alerts_test.yml")
}

// Who is woken up has to know what it is about, how bad it is, and where to read on. That the page exists is
// checked with the other links, by the tests of the documents.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	for _, r := range alertRules(t) {
		if r.Record != "" {
			continue
		}
		if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q, want warning or critical", r.Alert, r.Labels["severity"])
		}
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
	}
}

var alertName = regexp.MustCompile(`alertname="(\w+)"`)

// TestEveryAlertIsTriedBothWays holds the unit tests to their purpose: each alert is seen to fire, and seen
// to keep silent.
func TestEveryAlertIsTriedBothWays(t *testing.T) {
	var file struct {
		Tests []struct {
			PromQL []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(shipped(t, "prometheus/alerts_test.yml")), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, q := range test.PromQL {
			m := alertName.FindStringSubmatch(q.Expr)
			if m == nil {
				t.Errorf("%s asks for no alert", q.Expr)
				continue
			}
			if len(q.Samples) > 0 {
				fires[m[1]] = true
			} else {
				silent[m[1]] = true
			}
		}
	}
	for _, r := range alertRules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
			t.Errorf("%s: seen to fire: %v, to keep silent: %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}
