// Command caddy is Caddy with its rate limit module, to be measured beside Weir. It is a module of its
// own, for it brings more dependencies than everything else here together.
package main

import (
	"github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit"
)

func main() { caddycmd.Main() }
