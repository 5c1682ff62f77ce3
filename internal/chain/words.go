package chain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgate/weir"
)

// ours reports whether the peers are such as an operator's proxies have: private, or a CDN's.
func (v *verdict) ours(peers []netip.Prefix) bool {
	for _, p := range peers {
		if !local(p.Addr()) && v.m.cfg.KnownProxy(p.Addr()) == "" {
			return false
		}
	}
	return true
}

// proof says how to tell a proxy from a client who forges.
const proof = "run weir verify, which proves it, before you trust more"

// unsure returns what a finding adds that has no edit since a client who forges could look the same.
func unsure(edit string) string {
	if edit != "" {
		return ""
	}
	return "; or it is a client who forges, which is not believed; " + proof
}

// admit returns the lines that trust peers, who sent so many headers that they may not: only for such
// as an operator's proxies have, and if hardly anyone else connects.
func (v *verdict) admit(peers []netip.Prefix, sent int) string {
	if others := v.w.sources[weir.Direct] - sent; others*mostOthers > sent || !v.ours(peers) {
		return ""
	}
	return v.m.trust(texts(peers))
}

// trust returns the lines that trust the given networks, too.
func (m *Monitor) trust(networks []string) string {
	list := slices.Concat(m.cfg.Listed, networks)
	switch m.cfg.Strategy {
	case "path":
		return m.list("path", append(slices.Clone(m.cfg.Listed), hop("proxy", networks)))
	case "from_right", "header":
		return m.list("peers", list)
	}
	return m.list("trusted_proxies", list)
}

// list returns the lines that set one list of the configuration.
func (m *Monitor) list(field string, items []string) string {
	return "client:\n  " + field + ": [" + strings.Join(items, ", ") + "]"
}

// hop writes a proxy as in a path.
func hop(name string, networks []string) string {
	return "{name: " + name + ", cidrs: [" + strings.Join(networks, ", ") + "]}"
}

// trustOnly returns the lines that trust the given network in the place of all that are trusted.
func (m *Monitor) trustOnly(network string) string {
	switch m.cfg.Strategy {
	case "path":
		return "client:\n  path: [{name: proxy, cidrs: [" + network + "]}]"
	case "from_right", "header":
		return "client:\n  peers: [" + network + "]"
	}
	return "client:\n  trusted_proxies: [" + network + "]"
}

// apart returns what to do to tell apart who counts as the one client key, in words or as lines: that is
// a proxy, and the clients stand behind it.
func (v *verdict) apart(key netip.Prefix) (text, edit string) {
	unnamed := v.w.sources[weir.PeerOnly] + v.w.sources[weir.AllTrusted]
	switch m := v.m; {
	case m.cfg.Strategy == "header":
		return "; set client.header to the header in which the proxy names the client", ""
	case !key.IsValid() && m.fewer() != "":
		return "", m.fewer()
	case !key.IsValid() || unnamed*2 > v.w.requests:
		return "", m.addHeader()
	case local(key.Addr()) && (m.cfg.Strategy == "trusted_proxies" || m.cfg.Strategy == ""):
		edit = m.trust(texts([]netip.Prefix{key}))
	default:
		edit = v.further()
	}
	if edit == "" { // it may be somebody's own address
		text = ", or it is one client with many programs; " + proof
	}
	return text, edit
}

// further returns the lines that look one entry further left, if it is sure that a proxy stands there.
func (v *verdict) further() string {
	m := v.m
	if !v.outer() {
		return ""
	}
	name, networks := v.outermost()
	switch {
	case m.cfg.Strategy == "from_right":
		return fmt.Sprintf("client:\n  from_right: %d", m.cfg.FromRight+1)
	case name != "" && m.cfg.Strategy == "path":
		return m.list("path", append([]string{name}, m.cfg.Listed...))
	case name != "" && m.cfg.Strategy == "trusted_proxies":
		return m.trust([]string{name})
	case len(networks) > 0 && m.cfg.Strategy == "path":
		return m.list("path", append([]string{hop("outer", networks)}, m.cfg.Listed...))
	case len(networks) > 0 && m.cfg.Strategy == "trusted_proxies":
		return m.trust(networks)
	}
	return ""
}

// outermost returns the preset's name of the proxy that is taken for the client, or where there is none,
// its private addresses.
func (v *verdict) outermost() (name string, networks []string) {
	w := v.w
	if w.edge() > w.lowPrivate {
		return w.proxyName, nil
	}
	private := w.lowPeers.networks(w.low)
	private = slices.DeleteFunc(private, func(p netip.Prefix) bool { return !local(p.Addr()) })
	return "", texts(private)
}

// fewer returns the lines that look one entry less far left.
func (m *Monitor) fewer() string {
	if m.cfg.Strategy != "from_right" || m.cfg.FromRight < 2 {
		return ""
	}
	return fmt.Sprintf("client:\n  from_right: %d", m.cfg.FromRight-1)
}

// addHeader returns what the proxy's own configuration lacks.
func (m *Monitor) addHeader() string {
	if m.cfg.Strategy == "header" {
		return ""
	}
	return "# nginx, also where auth_request asks:\nproxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
}

// percent writes n of all as a whole percentage, and never rounds something down to nothing.
func percent(n, all int) string {
	switch p := n * 100 / max(all, 1); {
	case p == 0 && n > 0:
		return "under 1 %"
	default:
		return fmt.Sprintf("%d %%", p)
	}
}

func entries(n uint8) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// namePeers names the first of a few peers.
func namePeers(peers []netip.Prefix) string {
	if len(peers) == 1 {
		return maskNetwork(peers[0])
	}
	return fmt.Sprintf("%s and %d more peers", maskNetwork(peers[0]), len(peers)-1)
}

// maskNetwork writes an address so that no person is told by it: of public addresses the network
// alone, /24 or /48; private ones whole.
func maskNetwork(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "without an address"
	case local(p.Addr()) && p.IsSingleIP():
		return p.Addr().String()
	case local(p.Addr()):
		return p.String()
	}
	bits := 48
	if p.Addr().Is4() {
		bits = 24
	}
	wide, _ := p.Addr().Prefix(min(bits, p.Bits()))
	return "somewhere in " + wide.String()
}

// texts writes networks as items of a YAML list.
func texts(networks []netip.Prefix) []string {
	list := make([]string, len(networks))
	for i, p := range networks {
		list[i] = p.String()
		if p.Addr().Is6() {
			list[i] = strconv.Quote(list[i])
		}
	}
	return list
}
