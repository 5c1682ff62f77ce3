package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/replay/accesslog"
)

// randomLog is traffic of clients of different appetite, in bursts, over several hours: of IPv4, and of
// IPv6 networks that share wider ones.
func randomLog(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 5))
	paths := []string{"/", "/api/search", "/api/users/%d", "/api/users/%d/orders", "/login", "/static/app.3f2a9c1d.js", "/rare/%d", "/%d"}
	var log strings.Builder
	at := 1_700_000_000.0
	for range 6000 {
		at += r.ExpFloat64() * 1.5
		n := int(r.ExpFloat64() * 8)
		client := fmt.Sprintf("203.0.113.%d", n)
		if r.IntN(2) == 0 {
			client = fmt.Sprintf("2001:db8:0:%x::%x", r.IntN(40)*0x40, n)
		}
		path := paths[min(int(r.ExpFloat64()*3), len(paths)-1)]
		if strings.Contains(path, "%d") {
			path = fmt.Sprintf(path, r.IntN(1000))
		}
		for range 1 + r.IntN(4) {
			fmt.Fprintf(&log, "%s %.3f 0.001 GET h %s 200 -\n", client, at+r.Float64()*30, path)
		}
	}
	return log.String()
}

func suggestFrom(t *testing.T, log, at string) *Suggestion {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Suggest(t.Context(), SuggestOptions{At: at, Rules: 5, Open: func() ([]*accesslog.Log, error) {
		return accesslog.OpenAll([]string{name}, accesslog.OpenOptions{Format: timed})
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is suggested is valid and in shadow mode. At max it refuses nothing of its own log, even if it is
// enforced, and a limit of one less would; at p50 it refuses.
func TestSuggestedPolicies(t *testing.T) {
	racing.Skip(t)
	for seed := range uint64(2) {
		log := randomLog(seed)
		for at, refuses := range map[string]bool{"max": false, "p99": true, "p50": true} {
			s := suggestFrom(t, log, at)
			c, problems := config.Parse("suggested.yaml", []byte(s.Policy), nil)
			if config.HasErrors(problems) {
				t.Fatalf("seed %d: %v\n%s", seed, problems, s.Policy)
			}
			for _, r := range c.Rules {
				if r.Mode != "shadow" || len(r.Limits) == 0 {
					t.Errorf("seed %d: rule %s is %s, with %d limits", seed, r.Name, r.Mode, len(r.Limits))
				}
			}
			if c.Default.Mode != "shadow" || len(c.Rules) < 3 {
				t.Errorf("seed %d: default is %s, with %d rules beside it", seed, c.Default.Mode, len(c.Rules))
			}
			_, report := play(t, timed, strings.ReplaceAll(s.Policy, "mode: shadow", "mode: enforce"), log, nil)
			if (report.Policy.Refused > 0) != refuses {
				t.Errorf("seed %d, at %s: %d are refused\n%s", seed, at, report.Policy.Refused, s.Policy)
			}
		}
	}
}

// From what real servers wrote about odd requests comes a policy that is valid and, at max, refuses nothing of
// it.
func TestSuggestFromRealLogs(t *testing.T) {
	for _, name := range []string{"nginx-combined", "nginx-main", "haproxy", "caddy"} {
		path := filepath.Join("accesslog", "testdata", "real", name+".log")
		s, err := Suggest(t.Context(), SuggestOptions{At: "max", Rules: 12, Open: func() ([]*accesslog.Log, error) {
			return accesslog.OpenAll([]string{path}, accesslog.OpenOptions{})
		}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, report := play(t, "auto", strings.ReplaceAll(s.Policy, "mode: shadow", "mode: enforce"), string(text), nil)
		for _, r := range report.Policy.Reasons {
			if r.Refused > 0 && r.Name != string(weir.BadRequest) {
				t.Errorf("%s: %d are refused: %s\n%s", name, r.Refused, r.Name, s.Policy)
			}
		}
		if report.Policy.Requests < 4 {
			t.Errorf("%s: %d requests", name, report.Policy.Requests)
		}
	}
}

// Ids are folded, the root stands for itself alone, what is rare is left to the default, and the numbers
// stand above each limit.
func TestSuggestion(t *testing.T) {
	var log strings.Builder
	for i := range 400 {
		fmt.Fprintf(&log, "10.0.0.%d %d 0 GET h /users/%d/orders 200 -\n10.0.0.1 %d 0 GET h / 200 -\n", i%4, 3600+i, i, 3600+i)
	}
	log.WriteString("10.0.0.1 4100 0 GET h /rare 200 -\n")
	s := suggestFrom(t, log.String(), "p99.9")
	if diff := cmp.Diff(map[string]string{"root": "=/", "users_any_orders": "/users/*/orders", "default": ""}, paths(s)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for _, part := range []string{
		"from 801 requests of 4 clients, 1970-01-01 01:00 to 1970-01-01 01:08 UTC",
		"  # 400 requests\n  - name: \"root\"\n    path: \"=/\"\n    mode: shadow\n    limits:\n      # per client and 1m: p50 61, p95 61,",
		"- {name: root_minute, rate: 61/1m, per: client}",
		"- {name: root_hour, rate: 400/1h, per: client}",
		"- {name: users_any_orders_hour, rate: 100/1h, per: client}",
		"# 1 requests of everything else\ndefault:\n  mode: shadow\n  limits:\n",
	} {
		if !strings.Contains(s.Policy, part) {
			t.Errorf("the policy lacks %q:\n%s", part, s.Policy)
		}
	}
}

func paths(s *Suggestion) map[string]string {
	found := map[string]string{}
	for _, r := range s.Rules {
		found[r.Name] = r.Path
	}
	return found
}

// Names that two paths would share are told apart, and none is the default's.
func TestRuleNames(t *testing.T) {
	taken := map[string]bool{"default": true}
	var got []string
	for _, path := range []string{"/a/b", "/a-b", "/A_b", "/*/x", "/default", "/", "/.~"} {
		got = append(got, ruleName(path, taken))
	}
	if diff := cmp.Diff([]string{"a_b", "a_b_2", "a_b_3", "any_x", "default_2", "root", "root_2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Two digits are enough for a limit, and it is never less than what was needed.
func TestRoundUp(t *testing.T) {
	for n, want := range map[uint64]uint64{0: 0, 1: 1, 99: 99, 100: 100, 101: 110, 999: 1000, 1001: 1100, 123_456: 130_000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}

// What cannot be suggested says why.
func TestNothingToSuggest(t *testing.T) {
	empty := func() ([]*accesslog.Log, error) { return nil, nil }
	for want, o := range map[string]SuggestOptions{
		"is no percentile":      {At: "p98", Open: empty},
		"there is no request":   {At: "max", Open: empty, Window: time.Minute},
		"no logs can be opened": {At: "max", Open: func() ([]*accesslog.Log, error) { return nil, errors.New("no logs can be opened") }},
	} {
		if _, err := Suggest(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// The group of any path is a path that a rule can have, in YAML, too.
func FuzzGroups(f *testing.F) {
	for _, path := range []string{"/a/./b", "/../x", "/a/..", "/it's/~me/@you/a+b", "/=x", "=/a", "/-", "/a\\b", "/#", "/{a}", "/a:b", "/%2e", "/a b", "*"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		group := string(appendGroup(nil, path))
		if !plainPath(group) {
			return
		}
		s := &Suggestion{Rules: choose(map[string]*Counts{group: {Requests: 1}}, 1)}
		s.Rules[0].Limits = []SuggestedLimit{{Name: "one", Window: "1m", Limit: 1}}
		if _, err := s.compile(); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	})
}
