package incidents_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// A script is one text archive: what happened, the policies, and what is asked and answered.
type script struct {
	name  string
	about string
	files map[string][]byte
	steps []step
}

// A step is one line of a script.
type step struct {
	at     string // file:line
	when   moment
	do     verb
	file   string  // of reload and check
	ask    request // of ask and explain
	want   []group
	checks []check
}

// A verb is what a step does.
type verb uint8

const (
	ask     verb = iota
	held         // what becomes of those that had no answer
	release      // the upstream answers those it kept waiting
	leave        // those without an answer hang up
	explain
	reload
	load // a policy that is judged and not put in force
	look // at the store
)

// A moment says when a step happens.
type moment func(*road) (time.Time, error)

// A request is what is asked, how often and by whom.
type request struct {
	n        int
	every    time.Duration // between one and the next
	obeying  bool          // whoever is refused asks again as told
	parallel bool
	front    string
	peer     string
	method   string
	target   string
	header   []string // lines as sent, Host included
	upstream upstream
}

// An upstream is how the service behind Weir behaves.
type upstream struct {
	status int
	header []string
	waits  bool
	panics bool
}

// A group are answers that come in any order; groups come one after the other.
type group map[string]int

// readScript parses an archive. An error says where.
func readScript(name string, text []byte) (*script, error) {
	a := txtar.Parse(text)
	s := &script{name: name, about: string(a.Comment), files: map[string][]byte{}}
	begins := strings.Count(s.about, "\n")
	for _, f := range a.Files {
		begins++ // the line that names the file
		s.files[f.Name] = f.Data
		if f.Name == "requests" {
			if err := s.readSteps(begins, string(f.Data)); err != nil {
				return nil, err
			}
		}
		begins += strings.Count(string(f.Data), "\n")
	}
	for _, needed := range []string{"weir.yaml", "requests"} {
		if _, ok := s.files[needed]; !ok {
			return nil, fmt.Errorf("%s: no -- %s --", name, needed)
		}
	}
	return s, nil
}

// readSteps parses the requests, which begin after so many lines of the archive. A line that begins
// with a blank goes on with the one before; # begins a comment line.
func (s *script) readSteps(after int, text string) error {
	var lines, places []string
	for i, line := range strings.Split(text, "\n") {
		place := fmt.Sprintf("%s:%d", s.name, after+i+1)
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || trimmed[0] == '#':
		case line != strings.TrimLeft(line, " \t") && len(lines) > 0:
			lines[len(lines)-1] += " " + trimmed
		default:
			lines, places = append(lines, trimmed), append(places, place)
		}
	}
	for i, line := range lines {
		st, err := readStep(line)
		if err != nil {
			return fmt.Errorf("%s: %w", places[i], err)
		}
		st.at = places[i]
		s.steps = append(s.steps, st)
	}
	return nil
}

// readStep parses
//
//	TIME WHAT [| Header: value]… -> ANSWERS [| check]…
func readStep(line string) (step, error) {
	left, right, _ := strings.Cut(line, " -> ")
	given, wanted := parts(left), parts(right)
	w := words(strings.Fields(given[0]))
	var st step
	var err error
	if st.when, err = w.moment(); err != nil {
		return st, err
	}
	if err = w.what(&st); err != nil {
		return st, err
	}
	for _, clause := range given[1:] {
		if err = st.ask.clause(clause); err != nil {
			return st, err
		}
	}
	return st, st.expect(right, wanted)
}

// parts returns what stands between bars.
func parts(text string) []string {
	all := strings.Split(text, " | ")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// expect reads the right side of a step.
func (st *step) expect(right string, wanted []string) (err error) {
	if st.do == explain || st.do == look {
		st.checks, err = readFacts(wanted)
		return err
	}
	if right != "" {
		if st.want, err = readAnswers(wanted[0]); err != nil {
			return err
		}
		if st.checks, err = readChecks(wanted[1:]); err != nil {
			return err
		}
	}
	switch n := count(st.want); {
	case st.do == leave && n > 0:
		return fmt.Errorf("who leaves gets no answer")
	case st.do != leave && n == 0:
		return fmt.Errorf("no answer: want -> STATUS")
	case st.do == ask && n != st.ask.n:
		return fmt.Errorf("%d answers for %d requests", n, st.ask.n)
	case st.ask.parallel && len(st.want) > 1:
		return fmt.Errorf("what is asked in parallel has no order: want a comma in place of then")
	}
	return nil
}

// words are what is left of a line's left side.
type words []string

func (w *words) next() string {
	if len(*w) == 0 {
		return ""
	}
	word := (*w)[0]
	*w = (*w)[1:]
	return word
}

// take reports whether the next word is the given one, and steps over it.
func (w *words) take(word string) bool {
	if len(*w) > 0 && (*w)[0] == word {
		w.next()
		return true
	}
	return false
}

// moment reads an offset from the beginning (59.999s), a date (2000-01-31T23:59:59Z), now, or as told:
// when the last refusal said to come back.
func (w *words) moment() (moment, error) {
	word := w.next()
	if word == "now" {
		return func(r *road) (time.Time, error) { return r.now(), nil }, nil
	}
	if word == "as" && w.take("told") {
		return (*road).asTold, nil
	}
	if date, err := time.Parse(time.RFC3339, word); err == nil {
		return func(*road) (time.Time, error) { return date, nil }, nil
	}
	offset, err := time.ParseDuration(word)
	if err != nil {
		return nil, fmt.Errorf("%q is no time: want 59.999s, 2000-01-31T23:59:59Z, now or as told", word)
	}
	return func(r *road) (time.Time, error) { return r.began.Add(offset), nil }, nil
}

// what reads the rest of the left side's first part into st.
func (w *words) what(st *step) error {
	st.ask = request{n: 1, front: "middleware", peer: "192.0.2.1"}
	switch {
	case w.take("reload"):
		st.do, st.file = reload, w.next()
	case w.take("load"):
		st.do, st.file = load, w.next()
	case w.take("held"):
		st.do = held
	case w.take("upstream"):
		st.do = release
		if !w.take("answers") {
			return fmt.Errorf("want upstream answers")
		}
	case w.take("askers"):
		st.do = leave
		if !w.take("leave") {
			return fmt.Errorf("want askers leave")
		}
	case w.take("store"):
		st.do = look
	default:
		if w.take("explain") {
			st.do = explain
		}
		if err := w.request(&st.ask); err != nil {
			return err
		}
	}
	if len(*w) > 0 {
		return fmt.Errorf("%q is not understood", strings.Join(*w, " "))
	}
	return nil
}

// request reads [xN] [every TIME] [obeying] [in parallel] [from PEER] [via FRONT] METHOD TARGET.
func (w *words) request(q *request) (err error) {
	for len(*w) > 2 {
		switch word := w.next(); {
		case word == "every":
			if q.every, err = time.ParseDuration(w.next()); err != nil {
				return err
			}
		case word == "obeying":
			q.obeying = true
		case word == "in" && w.take("parallel"):
			q.parallel = true
		case word == "from":
			q.peer = w.next()
		case word == "via":
			q.front = w.next()
		default:
			if q.n, err = times(word); err != nil {
				return err
			}
		}
	}
	if len(*w) < 2 {
		return fmt.Errorf("want METHOD TARGET at the end")
	}
	q.method, q.target = w.next(), w.next()
	if q.method != strings.ToUpper(q.method) {
		return fmt.Errorf("%q is no method", q.method)
	}
	return nil
}

// times reads xN.
func times(word string) (int, error) {
	digits, ok := strings.CutPrefix(word, "x")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not understood", word)
	}
	return n, nil
}

// clause reads a header line, or a word about the upstream.
func (q *request) clause(text string) (err error) {
	behaviour, ok := strings.CutPrefix(text, "upstream ")
	switch {
	case ok && behaviour == "waits":
		q.upstream.waits = true
	case ok && behaviour == "panics":
		q.upstream.panics = true
	case ok && strings.HasPrefix(behaviour, "answers "):
		q.upstream.status, err = strconv.Atoi(strings.TrimPrefix(behaviour, "answers "))
	case ok && strings.HasPrefix(behaviour, "says "):
		q.upstream.header = append(q.upstream.header, strings.TrimPrefix(behaviour, "says "))
	case text == "no Host":
		q.header = append(q.header, text)
	case isField(text):
		q.header = append(q.header, text)
	default:
		err = fmt.Errorf("%q is neither a header line nor what an upstream does", text)
	}
	return err
}

// isField reports whether text is a header line, which may have an empty value.
func isField(text string) bool {
	name, value, ok := strings.Cut(text, ":")
	return ok && name != "" && !strings.Contains(name, " ") && (value == "" || value[0] == ' ')
}

// readAnswers parses answers such as: 200 x60 then 429; 200 x10, 429 x5; held x2, 429.
func readAnswers(text string) ([]group, error) {
	var groups []group
	for _, part := range strings.Split(text, " then ") {
		g := group{}
		for _, one := range strings.Split(part, ", ") {
			answer, many, repeated := strings.Cut(one, " ")
			n, err := 1, error(nil)
			if repeated {
				n, err = times(many)
			}
			if err != nil {
				return nil, err
			}
			if !isAnswer(answer) {
				return nil, fmt.Errorf("%q is no answer: want an HTTP status, dropped, held, ok, warned or refused", answer)
			}
			g[answer] += n
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func isAnswer(word string) bool {
	status, err := strconv.Atoi(word)
	return err == nil && status >= 100 && status < 600 ||
		slices.Contains([]string{"dropped", "held", "ok", "warned", "refused"}, word)
}

func count(groups []group) int {
	total := 0
	for _, g := range groups {
		for _, n := range g {
			total += n
		}
	}
	return total
}

// expand puts into text what stands for the i-th repetition: {1..50} counts, {a*500} is 500 times a.
func expand(text string, i int) string {
	before, rest, open := strings.Cut(text, "{")
	inner, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return text
	}
	var first, last, n int
	if _, err := fmt.Sscanf(inner, "%d..%d", &first, &last); err == nil && first <= last {
		inner = strconv.Itoa(first + i%(last-first+1))
	} else if unit, many, ok := strings.Cut(inner, "*"); ok {
		if n, err = strconv.Atoi(many); err == nil {
			inner = strings.Repeat(unit, n)
		}
	} else {
		inner = "{" + inner + "}"
	}
	return before + inner + expand(after, i)
}
