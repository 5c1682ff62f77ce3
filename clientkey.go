package weir

import (
	"net/netip"
	"strings"
)

// ParseKey returns a client whose [Client.AppendKey] appends text, and whether there is one. How it was
// found is not in the text: the source is Direct, or Unresolved.
func ParseKey(text string) (Client, bool) {
	c := Client{}
	if via, ok := strings.CutPrefix(text, "unresolved:"); ok {
		c.Source = Unresolved
		switch via {
		case "unix":
			c.ViaUnix = true
		case "none":
		default:
			c.Via, _ = netip.ParseAddr(via)
		}
		return c, c.Key() == text
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return Client{}, false
	}
	c.Prefix, c.Addr = p, p.Addr()
	return c, p.Masked() == p && p.Addr() == Canonical(p.Addr())
}
