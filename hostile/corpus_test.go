package hostile_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A case is what is sent over one connection, and what has to come of it.
type corpusCase struct {
	name     string
	statuses []int  // of the final answers; after one of 400 and above that is the last the connection has to end
	arrives  string // what the upstream has to see, if that matters
	bytes    string
}

// repeat is {N*text} in a corpus.
var repeat = regexp.MustCompile(`\{(\d+)\*([^}]*)\}`)

// corpus reads a table: after the comments, blocks of a line "name | statuses | what arrives" and the bytes, in the
// escapes of Go, whose lines are one.
func corpus(t *testing.T, file string) (all []corpusCase) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		head, rest, ok := strings.Cut(strings.TrimSpace(block), "\n")
		if !ok || strings.HasPrefix(head, "#") {
			continue
		}
		name, what, _ := strings.Cut(head, " | ")
		statuses, arrives, _ := strings.Cut(what, " | ")
		c := corpusCase{name: name, arrives: unescape(t, arrives)}
		for text := range strings.FieldsSeq(statuses) {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s: %v", head, err)
			}
			c.statuses = append(c.statuses, n)
		}
		rest = repeat.ReplaceAllStringFunc(rest, func(s string) string {
			m := repeat.FindStringSubmatch(s)
			n, _ := strconv.Atoi(m[1])
			return strings.Repeat(m[2], n)
		})
		c.bytes = unescape(t, strings.ReplaceAll(rest, "\n", ""))
		all = append(all, c)
	}
	return all
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return out
}

// last is a request that ends its connection, to be sent after all others.
const last = "GET /last HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n"

// goesOn reports whether further requests may follow on the connection.
func (c *corpusCase) goesOn() bool { return c.statuses[len(c.statuses)-1] < 400 }

// play sends a case, and returns the statuses that came back until the connection ended.
func (w *process) play(c *corpusCase) (got []int, err error) {
	conn := w.dial("listen")
	defer conn.Close()
	text := c.bytes
	if c.goesOn() {
		text += last
	}
	go io.WriteString(conn, text) // what is refused early is not read to its end
	for r := bufio.NewReader(conn); ; {
		_, err := r.Peek(1)
		refused := len(got) > 0 && got[len(got)-1] >= 400
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) && refused {
			return got, nil // what a refused client was still sending may reset the connection
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return got, err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return got, err
		}
		if answer.StatusCode >= 200 {
			got = append(got, answer.StatusCode)
		}
	}
}

// Every case of a corpus is either refused, and its connection ended, or reaches the upstream in one reading; and the
// upstream never sees a request that Weir did not decide about.
func TestCorpora(t *testing.T) {
	up := record(t)
	w := start(t, 512, "listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: \""+up.url+"\"\nwaf: {enabled: false}\ndefault: {limits: []}\n")
	for _, file := range []string{"testdata/smuggling.txt", "testdata/conformance.txt"} {
		for _, c := range corpus(t, file) {
			t.Run(c.name, func(t *testing.T) { w.judge(t, up, &c) })
		}
	}
	if err := w.Gone(); err != nil {
		t.Error(err)
	}
}

// judge plays one case.
func (w *process) judge(t *testing.T, up *recorder, c *corpusCase) {
	const decided = `weir_decisions_total{action="pass"`
	before := w.metric(decided)
	want := c.statuses
	if c.goesOn() {
		want = append(slices.Clone(want), 200) // for the last
	}
	got, err := w.play(c)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("answered %v, %v; want %v", got, err, want)
	}
	passes := 0
	for _, status := range want {
		if status < 400 {
			passes++
		}
	}
	seen := up.take() // they were answered before their askers were
	if passed := w.metric(decided) - before; len(seen) != passes || len(seen) > int(passed) {
		t.Errorf("%d answers say that a request passed, and %v were decided to; the upstream saw %d: %q", passes, passed, len(seen), seen)
	}
	if all := strings.Join(seen, ""); !strings.Contains(all, c.arrives) {
		t.Errorf("arrived as %q, want %q in it", all, c.arrives)
	}
}
