package crs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corazawaf/coraza-coreruleset/v4/tests"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/waftest"
)

// A suiteFile is a file of the rule set's regression tests, in the format of go-ftw.
type suiteFile struct {
	RuleID int `yaml:"rule_id"`
	Tests  []suiteTest
}

type suiteTest struct {
	ID     int `yaml:"test_id"`
	Stages []struct {
		Input  suiteInput
		Output struct {
			Status int
			Log    struct {
				Expect   []int `yaml:"expect_ids"`
				NoExpect []int `yaml:"no_expect_ids"`
			}
		}
	}
}

type suiteInput struct {
	Method, URI, Version, Data string
	Headers                    yaml.Node
	Encoded                    string `yaml:"encoded_request"`
	Autocomplete               *bool  `yaml:"autocomplete_headers"`
}

// What the tests of the suite are of.
const (
	requestTests = "REQUEST-*/*.yaml"
	answerTests  = "RESPONSE-*/*.yaml" // which nobody here inspects
)

// suite returns the tests of a kind.
func suite(t *testing.T, kind string) []suiteFile {
	t.Helper()
	names, err := fs.Glob(tests.FS, kind)
	if err != nil {
		t.Fatal(err)
	}
	var files []suiteFile
	for _, name := range names {
		data, err := fs.ReadFile(tests.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		var f suiteFile
		if err := yaml.Unmarshal(data, &f); err != nil {
			t.Fatal(name, err)
		}
		if f.RuleID == 0 {
			f.RuleID, _ = strconv.Atoi(strings.TrimSuffix(path.Base(name), ".yaml"))
		}
		for i := range f.Tests {
			if f.Tests[i].ID == 0 {
				f.Tests[i].ID = i + 1
			}
		}
		files = append(files, f)
	}
	return files
}

// bytes returns the request as it goes over the wire.
func (in *suiteInput) bytes(t *testing.T) []byte {
	t.Helper()
	if in.Encoded != "" {
		data, err := base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
			if r == '\n' || r == ' ' {
				return -1
			}
			return r
		}, in.Encoded))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	has := map[string]bool{}
	var head bytes.Buffer
	for i := 0; i+1 < len(in.Headers.Content); i += 2 {
		name, value := in.Headers.Content[i].Value, in.Headers.Content[i+1].Value
		has[strings.ToLower(name)] = true
		fmt.Fprintf(&head, "%s: %s\r\n", name, value)
	}
	if in.Autocomplete == nil || *in.Autocomplete {
		if in.Data != "" && !has["content-length"] && !has["transfer-encoding"] {
			fmt.Fprintf(&head, "Content-Length: %d\r\n", len(in.Data))
		}
		if in.Data != "" && !has["content-type"] {
			head.WriteString("Content-Type: application/x-www-form-urlencoded\r\n")
		}
		if !has["connection"] {
			head.WriteString("Connection: close\r\n")
		}
	}
	line := fmt.Sprintf("%s %s %s\r\n", orElse(in.Method, "GET"), orElse(in.URI, "/"), orElse(in.Version, "HTTP/1.1"))
	return []byte(line + head.String() + "\r\n" + in.Data)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// A listener is a server that tells what matched in the last request it got.
type listener struct {
	server *httptest.Server
	judge  func(in *waf.Input) []int
	got    chan []int
}

func listen(t *testing.T, judge func(in *waf.Input) []int) *listener {
	l := &listener{judge: judge, got: make(chan []int, 1)}
	l.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.got <- l.judge(waftest.Input(r, body, weir.Enforce))
	}))
	t.Cleanup(l.server.Close)
	return l
}

// ask sends a request and returns the ids that matched, and the status if the server answered by itself.
func (l *listener) ask(t *testing.T, request []byte) (ids []int, status int) {
	t.Helper()
	conn, err := net.Dial("tcp", l.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = conn.Write(request)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer := make([]byte, 16)
	if n, _ := io.ReadFull(conn, answer); n == len(answer) {
		status, _ = strconv.Atoi(string(answer[9:12]))
	}
	select {
	case ids = <-l.got:
	default:
	}
	return ids, status
}

// ids runs all rules over in and returns the ids of those that matched.
func (r *Rules) ids(in *waf.Input, limits feed.Limits) []int {
	c := &waf.Case{Input: in, Path: feed.Unescape(in.Path)}
	_ = c.Feed.Read(&feed.Source{Path: in.Path, Query: in.Query, Header: in.Header, Body: in.Body}, limits)
	var ids []int
	r.run(c, func(_ *sheet, m types.MatchedRule) { ids = append(ids, m.Rule().ID()) })
	return ids
}

// thorough hands everything to the rules.
var thorough = feed.Limits{Depth: 64, Values: 2000, Bytes: 4 << 20, Inflated: 1 << 20, Thorough: true}

// TestSuite runs the rule set's own regression tests through our feed and adapter, under the settings
// that they ask for. What fails is listed in testdata/suite.txt, with the reason: among it what is not run,
// the tests of answers.
func TestSuite(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{Paranoia: 4, stock: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	l := listen(t, func(in *waf.Input) []int { return rules.ids(in, thorough) })
	var failed []string
	n := 0
	for _, file := range suite(t, answerTests) {
		for _, test := range file.Tests {
			n++
			failed = append(failed, fmt.Sprintf("%d-%d", file.RuleID, test.ID))
		}
	}
	for _, file := range suite(t, requestTests) {
		for _, test := range file.Tests {
			n++
			if why := run(t, l, &test); why != "" {
				failed = append(failed, fmt.Sprintf("%d-%d", file.RuleID, test.ID))
				if !slices.Contains(known(t), failed[len(failed)-1]) {
					t.Logf("%d-%d: %s", file.RuleID, test.ID, why)
				}
			}
		}
	}
	t.Logf("%d of %d pass", n-len(failed), n)
	slices.Sort(failed)
	if diff := cmp.Diff(known(t), failed); diff != "" {
		t.Errorf("what fails is not what is known to (-known +failed):\n%s", diff)
	}
}

// known lists the tests that are known to fail, sorted.
func known(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/suite.txt")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(data)) {
		if id, _, _ := strings.Cut(strings.TrimSpace(line), " "); id != "" && id[0] != '#' {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// run plays a test and says what is wrong.
func run(t *testing.T, l *listener, test *suiteTest) string {
	for _, stage := range test.Stages {
		ids, status := l.ask(t, stage.Input.bytes(t))
		if want := stage.Output.Status; want >= 400 && status == want {
			continue // refused as it should be
		}
		for _, id := range stage.Output.Log.Expect {
			if !slices.Contains(ids, id) {
				return fmt.Sprintf("%d does not match (status %d): %.300q", id, status, stage.Input.bytes(t))
			}
		}
		for _, id := range stage.Output.Log.NoExpect {
			if slices.Contains(ids, id) {
				return fmt.Sprintf("%d matches (status %d): %.300q", id, status, stage.Input.bytes(t))
			}
		}
	}
	return ""
}
