package policy

import "github.com/weirgate/weir/clientip"

// Resolver returns what finds the client, for those who tell others how it does.
func (p *Policy) Resolver() *clientip.Resolver { return p.resolver }
