package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/racing"
)

// A shop is a service that hands what it is sent to a database, as it comes, and answers like one that can be
// had: it keeps every value, and says so if a quote is left open.
type shop struct {
	mu   sync.Mutex
	seen []string
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	if r.Method == http.MethodPost {
		var order struct{ ID string }
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &order) != nil {
			http.Error(w, "not an order", http.StatusBadRequest)
			return
		}
		id = order.ID
	}
	s.mu.Lock()
	s.seen = append(s.seen, id)
	s.mu.Unlock()
	if strings.Count(id, "'")%2 == 1 {
		http.Error(w, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version", http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "<p>article %d of our range, in stock</p>", len(id))
}

// values returns what was sent, each once.
func (s *shop) values() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.seen)))
}

var (
	// harmless is a value, and a probe of how the service takes quotes and brackets: nothing that computes,
	// compares, ends a statement, separates two words or begins a comment.
	harmless = regexp.MustCompile(`^-?[\w.,'"()<>]*$`)
	// spoken are the words of SQL that could do something without any of that.
	spoken = regexp.MustCompile(`(?i)\b(and|or|xor|not|in|is|like|rlike|regexp|between|select|union|from|where|having|order|group|limit|case|when|if|iif|sleep|waitfor|benchmark|exec|execute|declare|drop|insert|update|delete|cast|convert|concat|char|chr|extractvalue|updatexml|pg_sleep|count|ascii|substring|substr|mid|ord|length|make_set|elt|exp|procedure|analyse|into|load_file)\b`)
)

// isInjected reports whether a value holds SQL.
func isInjected(value string) bool { return !harmless.MatchString(value) || spoken.MatchString(value) }

func TestIsInjected(t *testing.T) {
	for value, want := range map[string]bool{
		"1": false, "-4321": false, "1.0": false, `1'"(),..)`: false, `1'FvGh<'">qWeR`: false, "1tZkB": false,
		"1 AND 1=1": true, "1'--": true, "1/**/": true, "1;": true, "1'||'a": true, "1'and'1": true, "(select(1))": true, "1-1": true, "1*1": true, "1#": true, "sleep(5)": true, "1\tx": true,
	} {
		if got := isInjected(value); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// sqlmap at level 2 and risk 2 against a parameter of a query and a member of JSON: with crs no SQL reaches the
// service. How much does with fast is told in the firewall's page.
func TestSQLMap(t *testing.T) {
	racing.Skip(t)
	program := proctest.Need(t, "sqlmap")
	for _, ruleset := range []string{"crs", "fast"} {
		t.Run(ruleset, func(t *testing.T) {
			t.Parallel()
			attackedBySQLMap(t, program, ruleset)
		})
	}
}

func attackedBySQLMap(t *testing.T, program, ruleset string) {
	s := new(shop)
	h := build(t, plan{yaml: walled(ruleset), service: s})
	for name, target := range map[string][]string{
		"query": {"-u", h.url("/articles?id=1")},
		"json":  {"-u", h.url("/orders"), "--data", `{"id":"1"}`, "--headers", "Content-Type: application/json"},
	} {
		before, blocked := len(s.values()), h.blocks()
		out, err := exec.Command(program, append(target, "-p", "id", "--level", "2", "--risk", "2", "--batch", "--random-agent", "--ignore-code", "403",
			"--skip-waf", "--flush-session", "--threads", "2", "--time-sec", "1", "--timeout", "20", "--retries", "1", "--disable-coloring", "--output-dir", filepath.Join(t.TempDir(), name))...).CombinedOutput()
		if err != nil {
			t.Fatalf("sqlmap: %v\n%s", err, tail(string(out)))
		}
		if n := h.blocks() - blocked; n < 20 || len(s.values()) == before {
			t.Errorf("%s, %s: %v blocked, %d new values passed: that was no attack\n%s", ruleset, name, n, len(s.values())-before, tail(string(out)))
		}
		t.Logf("%s, %s: %v requests blocked", ruleset, name, h.blocks()-blocked)
	}
	values := s.values()
	injected := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !isInjected(v) })
	t.Logf("%s: %d values reached the service, %d of them with SQL: %q", ruleset, len(values), len(injected), injected[:min(len(injected), 20)])
	if ruleset == "crs" && len(injected) > 0 {
		t.Errorf("crs: SQL reached the service: %q", injected)
	}
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// blocks is how many requests the firewall has blocked.
func (h *house) blocks() float64 { return h.metric(`weir_waf_verdicts_total{verdict="block"}`) }
