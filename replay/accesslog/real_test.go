package accesslog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What nginx 1.22, HAProxy 2.6 and Caddy 2.6 wrote about the same odd requests - quotes, backslashes, bytes
// that are no UTF-8, absolute and asterisk targets, HTTP/0.9, a TLS handshake on a plain port, a user's name
// with a quote, a request that was cut off - is read as what was asked. Each .want has a line for each of its log.
func TestRealLogs(t *testing.T) {
	logs, err := filepath.Glob("testdata/real/*.log")
	if err != nil || len(logs) != 4 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, taken, of := Detect(string(text))
		if f == nil {
			t.Fatalf("%s: no format takes half of the lines: %d of %d", name, taken, of)
		}
		got := fmt.Sprintf("%s takes %d of %d\n", f.Name, taken, of)
		p := NewParser(f, nil)
		for line := range strings.Lines(string(text)) {
			got += told(p, strings.TrimSuffix(line, "\n")) + "\n"
		}
		want, err := os.ReadFile(strings.TrimSuffix(name, ".log") + ".want")
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// told is what p makes of a line.
func told(p *Parser, line string) string {
	var l Line
	err := p.Parse(line, &l)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %s %d %s %q", time.Unix(0, l.At).UTC().Format("15:04:05.000000"), l.Client, l.Status, l.Method, l.Path)
	for _, part := range []struct{ name, value string }{{"query", l.Query}, {"host", l.Host}, {"chain", l.Header.Get("X-Forwarded-For")}, {"agent", l.Header.Get("User-Agent")}} {
		if part.value != "" {
			text += fmt.Sprintf(" %s %q", part.name, part.value)
		}
	}
	if l.Took != Unknown {
		text += " took " + l.Took.String()
	}
	return text
}
