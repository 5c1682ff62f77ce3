package incidents_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/policy"
)

// A check is one thing that is expected beyond the answers. Those of a request speak of the last one.
type check struct {
	text string
	see  func(*view) string // what is there in place of it
	want string
}

// A view is what the checks of one step look at.
type view struct {
	replies  []reply
	last     *reply
	decision *weir.Decision // of explain
	policy   *policy.Policy
	road     *road
}

// failed returns what is wrong, or nothing.
func (c *check) failed(v *view) string {
	if got := c.see(v); got != c.want {
		return fmt.Sprintf("%s: got %q, want %q", c.text, got, c.want)
	}
	return ""
}

func readChecks(texts []string) ([]check, error) {
	return readEach(texts, readCheck)
}

func readFacts(texts []string) ([]check, error) {
	return readEach(texts, readFact)
}

func readEach(texts []string, read func(string) (check, error)) ([]check, error) {
	var checks []check
	for _, text := range texts {
		c, err := read(text)
		if err != nil {
			return nil, err
		}
		c.text = text
		checks = append(checks, c)
	}
	return checks, nil
}

const yes = "yes"

// readCheck reads what an answer is to look like.
func readCheck(text string) (check, error) {
	key, rest := cutWord(text)
	switch {
	case key == "no":
		return check{want: "", see: func(v *view) string { return lines(v.last.header[field(rest)]) }}, nil
	case key == "took":
		return check{want: rest, see: func(v *view) string { return v.last.took.String() }}, nil
	case key == "body":
		return quoted(rest, "has ", func(v *view) string { return v.last.body })
	case key == "says":
		return quoted(rest, "", func(v *view) string { return v.last.text })
	case key == "upstream":
		return readSeen(rest)
	case key == "gap":
		return readGap(rest)
	case isField(text):
		name, value, _ := strings.Cut(text, ": ")
		return check{want: value, see: func(v *view) string { return lines(v.last.header[field(name)]) }}, nil
	}
	return check{}, fmt.Errorf("%q is not understood", text)
}

// quoted reads has "TEXT" of what from returns.
func quoted(text, has string, from func(*view) string) (check, error) {
	rest, ok := strings.CutPrefix(text, has)
	part, err := strconv.Unquote(rest)
	if !ok || err != nil {
		return check{}, fmt.Errorf("%q: want %s\"TEXT\"", text, has)
	}
	return check{want: yes, see: func(v *view) string {
		if got := from(v); !strings.Contains(got, part) {
			return got
		}
		return yes
	}}, nil
}

// readSeen reads upstream saw NAME: VALUE, upstream saw no NAME, and upstream saw nothing.
func readSeen(text string) (check, error) {
	rest, ok := strings.CutPrefix(text, "saw ")
	absent, no := strings.CutPrefix(rest, "no ")
	switch {
	case ok && rest == "nothing":
		return check{want: "", see: func(v *view) string { return shown(v.last.saw) }}, nil
	case ok && no:
		return check{want: "", see: func(v *view) string { return lines(v.last.saw[field(absent)]) }}, nil
	case ok && isField(rest):
		name, value, _ := strings.Cut(rest, ": ")
		return check{want: value, see: func(v *view) string { return lines(v.last.saw[field(name)]) }}, nil
	}
	return check{}, fmt.Errorf("%q: want upstream saw NAME: VALUE or upstream saw no NAME", text)
}

func shown(saw http.Header) string {
	if saw == nil {
		return ""
	}
	return fmt.Sprint(saw)
}

// readGap reads gap at most TIME: the longest time between two that passed.
func readGap(text string) (check, error) {
	most, err := time.ParseDuration(strings.TrimPrefix(text, "at most "))
	if err != nil {
		return check{}, fmt.Errorf("%q: want gap at most TIME", text)
	}
	return check{want: yes, see: func(v *view) string {
		if got := gap(v.replies); got > most {
			return got.String()
		}
		return yes
	}}, nil
}

func gap(replies []reply) time.Duration {
	longest, last := time.Duration(0), replies[0].at
	for _, r := range replies {
		if r.what == "200" {
			longest, last = max(longest, r.at.Sub(last)), r.at
		}
	}
	return max(longest, replies[len(replies)-1].at.Sub(last))
}

// readFact reads what explain, or a look at the store, is to find.
func readFact(text string) (check, error) {
	key, rest := cutWord(text)
	c := check{want: rest}
	switch key {
	case "client":
		c.see = func(v *view) string { return v.decision.Client.Key() }
	case "source":
		c.see = func(v *view) string { return v.decision.Client.Source.String() }
	case "warning":
		c.see = func(v *view) string { return oneOf(v.decision.Client.Chain.Codes.Names(), rest) }
	case "rule":
		c.see = func(v *view) string { return ruleName(v.decision) }
	case "action":
		c.see = func(v *view) string { return v.decision.Action.String() }
	case "reason":
		c.see = func(v *view) string { return string(v.decision.Reason) }
	case "why":
		c.see = func(v *view) string { return v.policy.Why(v.decision) }
	case "limit":
		c.see = func(v *view) string { return oneOf(limitLines(v.decision), rest) }
	case "evictions":
		c.see = func(v *view) string { return strconv.FormatUint(v.road.store.Evictions(), 10) }
	case "keys":
		c.see = func(v *view) string { return strconv.Itoa(v.road.store.Keys()) }
	default:
		return c, fmt.Errorf("%q is not understood", text)
	}
	return c, nil
}

func ruleName(d *weir.Decision) string {
	if d.Rule == nil {
		return "none"
	}
	return d.Rule.Name
}

// limitLines are the limits of d as scripts write them: search: 6 of 20 left.
func limitLines(d *weir.Decision) []string {
	var found []string
	for _, s := range d.Statuses {
		found = append(found, fmt.Sprintf("%s: %d of %d left", s.Limit.Name, s.Remaining, s.Limit.Capacity()))
	}
	return found
}

// oneOf returns want if it is among found, else all that is.
func oneOf(found []string, want string) string {
	if slices.Contains(found, want) {
		return want
	}
	return strings.Join(found, ", ")
}

func cutWord(text string) (word, rest string) {
	word, rest, _ = strings.Cut(text, " ")
	return word, rest
}

// lines are the lines of one field as one text, in which a repeated field shows.
func lines(values []string) string { return strings.Join(values, " AND ") }
