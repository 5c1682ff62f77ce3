// Package waftest asks a WAF as the world would: in bytes over a connection, through net/http.
package waftest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
)

// A Case is a request with what should become of it.
type Case struct {
	Name, Method, Target string
	Headers              map[string]string
	Body                 string
	BodyB64              string  `json:"body_b64"`
	BodyParts            [][]any `json:"body_parts"` // a text and how often it comes
	Chunked              bool
	Expect, Class, Tier  string
}

// Load reads the acceptance cases.
func Load(t testing.TB, name string) []Case {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []Case }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// Bytes returns the request as it goes over the wire.
func (c *Case) Bytes(t testing.TB) []byte {
	t.Helper()
	body := c.body(t)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", c.Method, c.Target)
	for name, value := range c.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	isChunked := c.Chunked || c.Headers["Transfer-Encoding"] != ""
	switch {
	case c.Chunked:
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	case c.Headers["Content-Length"] == "" && len(body) > 0 && !isChunked:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	default:
		fmt.Fprintf(&b, "\r\n%s", body)
	}
	return b.Bytes()
}

func (c *Case) body(t testing.TB) []byte {
	t.Helper()
	if c.BodyB64 != "" {
		body, err := base64.StdEncoding.DecodeString(c.BodyB64)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	if c.BodyParts == nil {
		return []byte(c.Body)
	}
	var b strings.Builder
	for _, part := range c.BodyParts {
		b.WriteString(strings.Repeat(part[0].(string), int(part[1].(float64))))
	}
	return []byte(b.String())
}

// An Asker sends requests to a WAF behind a server.
type Asker struct {
	server *httptest.Server
	mode   weir.Mode
	result chan weir.Inspection
}

// maxBody is what the server reads of a body, in bytes; a longer one is answered 413.
const maxBody = 1 << 20

// Serve puts w behind a server for as long as the test runs.
func Serve(t testing.TB, w *waf.WAF, mode weir.Mode) *Asker {
	t.Helper()
	a := &Asker{mode: mode, result: make(chan weir.Inspection, 1)}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil || len(body) > maxBody {
			rw.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		var result weir.Inspection
		w.Inspect(r.Context(), Input(r, body, mode), &result)
		a.result <- result
		if result.Verdict == weir.Blocked {
			rw.WriteHeader(result.HTTP)
		}
	}))
	a.server.Config.ErrorLog = nil
	a.server.Start()
	t.Cleanup(a.server.Close)
	return a
}

// Input returns what a front hands over of r.
func Input(r *http.Request, body []byte, mode weir.Mode) *waf.Input {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	return &waf.Input{Mode: mode, Now: time.Unix(0, 0), Method: r.Method, Proto: r.Proto, Host: r.Host, Path: path, Query: query, Header: r.Header, Chunked: len(r.TransferEncoding) > 0, Body: body}
}

// Ask sends request, and returns the status of the answer, 0 if there is none, and what the WAF found if
// it was asked.
func (a *Asker) Ask(t testing.TB, request []byte) (status int, result weir.Inspection) {
	t.Helper()
	conn, err := net.Dial("tcp", a.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = conn.Write(request) }() // the answer may come before the end
	answer := make([]byte, 64)
	n, _ := io.ReadAtLeast(conn, answer, len("HTTP/1.1 200"))
	if n >= len("HTTP/1.1 200") {
		_, _ = fmt.Sscanf(string(answer[9:12]), "%d", &status)
	}
	select {
	case result = <-a.result:
	default:
	}
	return status, result
}

// A Score counts cases that came out right.
type Score struct{ Right, All int }

func (s Score) String() string { return fmt.Sprintf("%d/%d", s.Right, s.All) }

// Run asks w every case and returns the scores by "expect tier", with what came out wrong.
func Run(t testing.TB, w *waf.WAF, cases []Case) (scores map[string]Score, wrong []string) {
	a := Serve(t, w, weir.Enforce)
	scores = map[string]Score{}
	for i := range cases {
		c := &cases[i]
		status, result := a.Ask(t, c.Bytes(t))
		isBlocked := status < 200 || status >= 400
		key := c.Expect + " " + c.Tier
		s := scores[key]
		s.All++
		if isBlocked == (c.Expect == "block") {
			s.Right++
		} else {
			wrong = append(wrong, fmt.Sprintf("%s %s: %d %v %s %+v", key, c.Name, status, result.Verdict, result.Refused, result.Matches))
		}
		scores[key] = s
	}
	slices.Sort(wrong)
	return scores, wrong
}
