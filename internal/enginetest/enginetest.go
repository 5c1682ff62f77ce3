// Package enginetest makes of a configuration what the tests of a front put behind it.
package enginetest

import (
	"strings"
	"testing"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
)

// Snapshot returns what the text of a configuration file describes, over s; with a firewall only if the text names
// waf, so that bodies stream for all other tests. A faulty text ends the test.
func Snapshot(tb testing.TB, yaml string, s engine.Store) *engine.Snapshot {
	tb.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	if config.HasErrors(problems) {
		tb.Fatal(problems)
	}
	p, problems := policy.Compile(cfg)
	if config.HasErrors(problems) {
		tb.Fatal(problems)
	}
	made := &engine.Snapshot{Policy: p, Store: s, Respond: respond.New(embedded.RespondOptions(cfg)), Whoami: cfg.Whoami}
	if strings.Contains(yaml, "waf: ") {
		firewalls, err := embedded.NewFirewalls(cfg, p, nil, nil)
		if err != nil {
			tb.Fatal(err)
		}
		made.Firewalls = firewalls.All
	}
	return made
}
