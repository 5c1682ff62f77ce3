package crs

import (
	"fmt"
	"testing"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// TestFastPass sends the requests of the rule set's own tests to the default set with and without what is
// left out: the fast pass, and words, numbers and base64 in bodies. No verdict may differ.
func TestFastPass(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	var skipped, blocked int
	var differ string
	l := listen(t, func(in *waf.Input) []int {
		in.Header.Del("Connection") // the runner's own
		whole, _ := rules.score(in, thorough, false)
		less, skip := rules.score(in, limits, true)
		if skip {
			skipped++
		}
		if whole >= 5 {
			blocked++
		}
		if (whole >= 5) != (less >= 5) {
			differ = fmt.Sprintf("%d with everything, %d without (skipped %v)", whole, less, skip)
		}
		return nil
	})
	for _, file := range suite(t, requestTests) {
		for _, test := range file.Tests {
			for _, stage := range test.Stages {
				request := stage.Input.bytes(t)
				differ = ""
				l.ask(t, request)
				if differ != "" {
					t.Errorf("%d-%d: %s: %.400q", file.RuleID, test.ID, differ, request)
				}
			}
		}
	}
	t.Logf("%d of the requests are blocked, %d pass fast", blocked, skipped)
}

// score returns what the rules add up to; a request that cannot be read is refused either way.
func (r *Rules) score(in *waf.Input, limits feed.Limits, fast bool) (score int, skipped bool) {
	c := &waf.Case{Input: in, Path: feed.Unescape(in.Path)}
	if c.Feed.Read(&feed.Source{Path: in.Path, Query: in.Query, Header: in.Header, Body: in.Body}, limits) != nil {
		return 99, false
	}
	if fast && r.isSafe(c) {
		return 0, true
	}
	r.evaluate(c)
	return c.Score(), false
}
