package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A listener is a field that holds an address to listen on.
type listener struct{ field, addr string }

// addresses judges where is listened: each place once.
func (k *checker) addresses() {
	var taken []listener
	for _, l := range []listener{
		{"listen", k.Listen}, {"admin", k.Admin}, {"forward_auth.listen", k.ForwardAuth.Listen}, {"rls.listen", k.RLS.Listen},
		{"ext_authz.listen", k.ExtAuthz.Listen}, {"spoe.listen", k.SPOE.Listen},
	} {
		k.want(l.field, l.addr, wantListen(l.addr))
		if l.addr == "" || strings.HasSuffix(l.addr, ":0") {
			continue
		}
		i := slices.IndexFunc(taken, func(o listener) bool { return o.addr == l.addr || holds(o.addr, l.addr) || holds(l.addr, o.addr) })
		switch {
		case i < 0:
			taken = append(taken, l)
		case taken[i].addr == l.addr:
			k.wrong(l.field, l.addr+" is the address of "+taken[i].field+", too", "give each its own port")
		default:
			k.wrong(l.field, fmt.Sprintf("%s and %s of %s want the same port", l.addr, taken[i].addr, taken[i].field), "give each its own port")
		}
	}
}

// holds reports whether a listener on all addresses of a port, wide, listens at narrow, too.
func holds(wide, narrow string) bool {
	host, port, err := net.SplitHostPort(wide)
	other, same, bad := net.SplitHostPort(narrow)
	return err == nil && bad == nil && port == same && (host == "" || host == "::" || host == "0.0.0.0" && !isIPv6(other))
}

func isIPv6(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is6()
}

// portOf returns the port of a URL, given or not.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
