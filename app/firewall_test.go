package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/waf/waftest"
)

// walled is a configuration with a firewall of a rule set, and no limits.
func walled(ruleset string) string {
	return basics + "default: {limits: []}\nwaf: {ruleset: " + ruleset + "}\n"
}

// ask sends bytes to the proxy and returns the HTTP status of the answer, or 0 if there is none.
func (h *house) ask(request []byte) int {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr("listen"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = conn.Write(request) }() // the answer may come before the end
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer.StatusCode
}

// The acceptance cases, written raw to the real proxy before a real service: what is blocked never reaches
// the service, and what passes does.
func TestAcceptance(t *testing.T) {
	promises := map[string]map[string]int{
		"crs":  {"block must": 100, "allow must": 100, "block should": 88, "allow should": 90},
		"fast": {"block must": 85, "allow must": 100},
	}
	cases := waftest.Load(t, "../waf/testdata/cases.json")
	for ruleset, promised := range promises {
		t.Run(ruleset, func(t *testing.T) {
			var reached atomic.Int64
			h := build(t, plan{yaml: walled(ruleset), service: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
			})})
			scores := map[string]waftest.Score{}
			var wrong []string
			for _, c := range cases {
				before := reached.Load()
				status := h.ask(c.Bytes(t))
				passed := reached.Load() > before
				key := c.Expect + " " + c.Tier
				s := scores[key]
				s.All++
				if isRight := passed == (c.Expect == "allow") && (passed || status == 0 || status >= 400 && status < 500); isRight {
					s.Right++
				} else {
					wrong = append(wrong, fmt.Sprintf("%s: %s: %d, reached the service: %v", key, c.Name, status, passed))
				}
				scores[key] = s
			}
			slices.Sort(wrong)
			t.Log(scores)
			for _, line := range wrong {
				t.Log(line)
			}
			for key, percent := range promised {
				if s := scores[key]; s.Right*100 < s.All*percent || s.All == 0 {
					t.Errorf("%s: %v, want %d %%", key, s, percent)
				}
			}
		})
	}
}
