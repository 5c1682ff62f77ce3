// Package incidents_test holds the incidents that this project was born from, and those that users of
// other limiters met, as texts that an operator can read: a policy, what was asked and when, and what
// was answered. Each is carried out on the whole road, from the bytes on a connection to those that
// come back, by a clock that only the text moves.
//
// A step of a text is one line; lines that begin with a blank go on with the one before.
//
//	TIME [xN] [every TIME] [obeying] [in parallel] [from PEER] [via FRONT] METHOD TARGET
//	    [| Name: value]… [| upstream waits|panics|answers STATUS|says Name: value]…
//	    -> ANSWERS [| Name: value] [| no Name] [| body has "TEXT"] [| took TIME] [| gap at most TIME]
//	    [| upstream saw nothing|no Name|Name: value]
//	TIME held -> ANSWERS                those who had no answer have one now
//	TIME upstream answers -> ANSWERS    those who wait for the upstream get theirs
//	TIME askers leave                   those without an answer hang up
//	TIME reload FILE -> ok|refused [| says "TEXT"]
//	TIME load FILE -> ok|warned|refused [| says "TEXT"]
//	TIME explain [from PEER] METHOD TARGET [| Name: value]… -> client KEY [| source|warning|rule|why|limit|action|reason …]
//	TIME store -> keys N [| evictions N]
//
// TIME is counted from the beginning, which is 2000-01-01 00:00:00 UTC, or is a date, now, or as told:
// when the last refusal said to come back. Whoever is obeying does so after each refusal, and must
// then be let in. ANSWERS are HTTP statuses, dropped or held: 200 x60 then 429 in this order, 200 x60,
// 429 x5 in any. What stands behind them speaks of the last one. {1..50} counts with the repetitions.
package incidents_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestIncidents(t *testing.T) {
	for _, s := range scripts(t) {
		t.Run(strings.TrimSuffix(s.name, ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, err := range walk(s) {
					t.Error(err)
				}
			})
		})
	}
}

// scripts returns every archive of this folder, in the order of their names.
func scripts(t *testing.T) []*script {
	t.Helper()
	names, err := filepath.Glob("*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var all []*script
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := readScript(name, text)
		if err != nil {
			t.Error(err)
			continue
		}
		all = append(all, s)
	}
	return all
}

// bornFrom are the incidents that the main road is measured by.
var bornFrom = []string{
	"one bucket for the whole site behind a proxy",
	"forged leftmost X-Forwarded-For",
	"a comma chain from outside",
	"a limit per path counted in one bucket per address",
	"static files draining the budget",
	"off-by-one at 60/61",
	"hammering that extends a lockout",
	"Retry-After that is a flat guess",
	"plain-text 429",
	"one limit each for two fronts",
	"a tarpit that only collects sockets",
}

func TestEveryIncidentHasAScript(t *testing.T) {
	told := map[string]string{}
	for _, s := range scripts(t) {
		for _, name := range s.listed("Incident") {
			told[name] = s.name
			if !slices.Contains(bornFrom, name) {
				t.Errorf("%s: %q is not among the incidents", s.name, name)
			}
		}
	}
	for _, name := range bornFrom {
		if told[name] == "" {
			t.Errorf("no script tells of %s", name)
		}
	}
}

// TestPublicCases lists, with -v, which public cases are told by a script, and which are not.
func TestPublicCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "public-cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ ID, Area, Source string }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	tellers := map[string][]string{}
	for _, s := range scripts(t) {
		for _, id := range s.listed("Cases") {
			tellers[id] = append(tellers[id], s.name)
		}
	}
	var untold []string
	for _, c := range cases {
		if names := tellers[c.ID]; names != nil {
			t.Logf("%s  %s  %s  (%s)", c.ID, c.Area, strings.Join(names, " "), c.Source)
		} else {
			untold = append(untold, c.ID)
		}
		delete(tellers, c.ID)
	}
	t.Logf("told by no script: %s", strings.Join(untold, " "))
	for id, names := range tellers {
		t.Errorf("%v: there is no public case %s", names, id)
	}
}

// listed returns what the comment lists in a line such as Cases: CNT-01, CNT-58.
func (s *script) listed(what string) []string {
	for _, line := range strings.Split(s.about, "\n") {
		if rest, ok := strings.CutPrefix(line, what+": "); ok {
			return strings.Split(strings.TrimSuffix(rest, "."), ", ")
		}
	}
	return nil
}

var sentence = regexp.MustCompile(`[.?!](\s|$)`)

func TestEveryScriptTellsWhatHappened(t *testing.T) {
	for _, s := range scripts(t) {
		told, _, _ := strings.Cut(s.about, "\n\n")
		if n := len(sentence.FindAllString(told, -1)); n < 2 || n > 5 {
			t.Errorf("%s: told in %d sentences, want two to five before an empty line", s.name, n)
		}
	}
}

const header = "About.\n-- weir.yaml --\ndefault: {limits: [{rate: 2/1m, per: ip}]}\n-- requests --\n"

func TestSyntax(t *testing.T) {
	tests := []struct{ line, want string }{
		{"0s GET / -> 200", ""},
		{"GET / -> 200", `x.txt:5: "GET" is no time`},
		{"0s get / -> 200", `x.txt:5: "get" is no method`},
		{"0s GET -> 200", "x.txt:5: want METHOD TARGET at the end"},
		{"0s twice GET / -> 200", `x.txt:5: "twice" is not understood`},
		{"0s GET / / -> 200", `x.txt:5: "GET" is not understood`},
		{"0s x3 GET / -> 200 x2", "x.txt:5: 2 answers for 3 requests"},
		{"0s GET /", "x.txt:5: no answer: want -> STATUS"},
		{"0s GET / -> fine", `x.txt:5: "fine" is no answer`},
		{"0s GET / -> 200 twice", `x.txt:5: "twice" is not understood`},
		{"0s GET / | Colour -> 200", `x.txt:5: "Colour" is neither a header line`},
		{"0s GET / -> 200 | Colour", `x.txt:5: "Colour" is not understood`},
		{"0s x2 in parallel GET / -> 200 then 200", "x.txt:5: what is asked in parallel has no order"},
		{"# ask\n\n0s GET / ->\n  200 | took 0s\n1s askers leave at once", `x.txt:9: "at once" is not understood`},
	}
	for _, test := range tests {
		_, err := readScript("x.txt", []byte(header+test.line+"\n"))
		if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", test.line, got, test.want)
		}
	}
}

// A runner that never fails proves nothing.
func TestWhatIsWrongIsSeen(t *testing.T) {
	tests := []struct{ line, want string }{
		{"0s x3 GET / -> 200 x3", "x.txt:5: got 200 x2 then 429, want 200 x3"},
		{"0s x3 GET / -> 429 then 200 x2", "x.txt:5: got 200 x2 then 429, want 429 then 200 x2"},
		{"0s x3 GET / -> 200 x2, 429 | Retry-After: 1", `x.txt:5: Retry-After: 1: got "60", want "1"`},
		{"0s GET / -> 200 | no RateLimit", `x.txt:5: no RateLimit: got "\"default\";r=1;t=60", want ""`},
		{`0s GET / -> 200 | body has "mine"`, `x.txt:5: body has "mine": got "the upstream's answer", want "yes"`},
		{"0s GET / -> 200 | upstream saw Accept: */*", `x.txt:5: upstream saw Accept: */*: got "", want "*/*"`},
		{"5s GET / -> 200\n4s GET / -> 200", "x.txt:6: the clock does not go back: it is 5s"},
		{"as told GET / -> 200", "x.txt:5: nobody was told to come back"},
		{"0s reload after.yaml -> ok", "x.txt:5: no -- after.yaml --"},
		{"0s explain GET / -> rule other", `x.txt:5: rule other: got "default", want "other"`},
		{"0s held -> 200", "x.txt:5: got nothing, want 200"},
		{"0s x2 every 40s GET / -> 200 x2 | gap at most 39s", `x.txt:5: gap at most 39s: got "40s", want "yes"`},
	}
	for _, test := range tests {
		s, err := readScript("x.txt", []byte(header+test.line+"\n"))
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			if got := fmt.Sprint(walk(s)); got != "["+test.want+"]" {
				t.Errorf("%s:\n got %s\nwant [%s]", test.line, got, test.want)
			}
		})
	}
}
