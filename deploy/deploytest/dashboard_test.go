package deploytest_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A panel of Grafana's, as far as it is judged here.
type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

type dashboard struct {
	Title      string
	Panels     []panel
	Templating struct {
		List []struct{ Name, Query string }
	}
}

func grafana(t *testing.T) (d dashboard, text string) {
	t.Helper()
	text = shipped(t, "grafana/weir.json")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d, text
}

// filled puts values in the place of Grafana's variables, which PromQL does not know.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$job", "weir", "$instance", ".*")

// expressions returns what the dashboard asks Prometheus, by the panel's title.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	d, _ := grafana(t)
	all := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], filled.Replace(target.Expr))
		}
	}
	return all
}

// TestDashboardParses has promtool read every expression, as a rule that records it.
func TestDashboardParses(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	rules := "groups:\n  - name: panels\n    rules:\n"
	for title, exprs := range expressions(t) {
		for _, e := range exprs {
			rules += fmt.Sprintf("      - {record: 'weir:panel', labels: {panel: %q, n: '%d'}, expr: %q}\n", title, strings.Count(rules, "\n"), e)
		}
	}
	succeed(t, "", promtool, "check", "rules", write(t, t.TempDir(), "panels.yml", rules))
}

// TestDashboardIsWhole checks what Grafana does not complain about: panels that lie on one another, ids that are
// given twice, panels that ask nothing, and variables that are not there.
func TestDashboardIsWhole(t *testing.T) {
	d, text := grafana(t)
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || (p.Type != "row") != (len(p.Targets) > 0) {
			t.Errorf("panel %d %q: its id is given twice, it has no title, or it asks nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %q is wider than the page", p.Title)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("panels %q and %q lie on one another", other, p.Title)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	names := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("the variable %s is not there", m[0])
		}
	}
}
