// Package enginetest makes of a configuration what the tests of a front put behind it.
package enginetest

import (
	"testing"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
)

// Snapshot returns what the text of a configuration file describes, over s. A faulty text ends the test.
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
	return &engine.Snapshot{Policy: p, Store: s, Respond: respond.New(embedded.RespondOptions(cfg))}
}
