package incidents_test

import (
	"context"
	"strings"

	"github.com/weirgate/weir"
)

// keyring proves the keys of scripts: PLAN/NAME in X-API-Key, whose one scope is NAME; anything else is wrong.
type keyring struct{}

func (keyring) Verify(_ context.Context, d *weir.Decision) {
	key := d.Request.Header.Get("X-Api-Key")
	if key == "" {
		return
	}
	plan, name, ok := strings.Cut(key, "/")
	if !ok {
		d.Client.Credential = weir.Refuted
		return
	}
	d.Client.Credential, d.Client.Plan, d.Client.APIKey, d.Client.Scopes = weir.Verified, plan, key, []string{name}
}
