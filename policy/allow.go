package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
)

// allowed are the clients that beat limits and bans.
type allowed struct {
	addresses   ranges
	keys, plans []string
}

// Allows reports whether c beats limits and bans: by an address that somebody other than the asker wrote,
// or by a verified API key or its plan.
func (p *Policy) Allows(c *weir.Client) bool {
	return (len(p.allowed.addresses) > 0 || c.APIKey != "") && p.allowed.has(c)
}

func (a *allowed) has(c *weir.Client) bool {
	return c.Vouched() && a.addresses.contain(c.Addr) ||
		c.APIKey != "" && (slices.Contains(a.keys, c.APIKey) || slices.Contains(a.plans, c.Plan))
}

// AllowsKeys reports whether Allows may depend on the API key.
func (p *Policy) AllowsKeys() bool { return len(p.allowed.keys)+len(p.allowed.plans) > 0 }

// allow compiles who is allowed.
func (c *compiler) allow() {
	var networks []netip.Prefix
	to := &c.policy.allowed
	for i, a := range c.cfg.Allow {
		field := fmt.Sprintf("allow[%d]", i)
		switch {
		case !isOneOf(a):
			c.fail(field, "it names no client, or more than one way to know it", "give one of cidr, key and plan")
		case a.CIDR != "":
			n, ok := clientip.ParseNetwork(a.CIDR)
			if !ok {
				c.fail(field+".cidr", a.CIDR+" is no network", "write an address or a network such as 192.0.2.0/24")
				continue
			}
			networks = append(networks, n.Masked())
		case a.Key != "":
			to.keys = append(to.keys, a.Key)
		default:
			if _, ok := c.cfg.Plans[a.Plan]; !ok {
				c.fail(field+".plan", "there is no plan "+a.Plan, "name one of plans")
			}
			to.plans = append(to.plans, a.Plan)
		}
	}
	to.addresses = newRanges(networks)
}

// isOneOf reports whether exactly one way to know a client is given.
func isOneOf(a config.Allow) bool {
	given := 0
	for _, text := range []string{a.CIDR, a.Key, a.Plan} {
		if text != "" {
			given++
		}
	}
	return given == 1
}
