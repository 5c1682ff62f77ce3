package chain

import (
	"fmt"
	"net/netip"
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

// trust returns the lines that trust the given networks, too.
func (m *Monitor) trust(networks []string) string {
	list := strings.Join(networks, ", ")
	switch m.cfg.Strategy {
	case "path":
		return "client:\n  path: [..., {name: proxy, cidrs: [" + list + "]}]"
	case "from_right", "header":
		return "client:\n  peers: [..., " + list + "]"
	case "trusted_proxies":
		return "client:\n  trusted_proxies: [..., " + list + "]"
	}
	return "client:\n  trusted_proxies: [" + list + "]"
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

// apart returns the lines that tell apart who counts as the one client key: that is a proxy, and the
// clients stand behind it.
func (v *verdict) apart(key netip.Prefix) string {
	unnamed := v.w.sources[weir.PeerOnly] + v.w.sources[weir.AllTrusted]
	switch m := v.m; {
	case m.cfg.Strategy == "header":
		return "client:\n  header: HEADER-IN-WHICH-THE-PROXY-NAMES-THE-CLIENT"
	case !key.IsValid() && m.fewer() != "":
		return m.fewer()
	case !key.IsValid() || unnamed*2 > v.w.requests:
		return m.addHeader()
	case m.cfg.Strategy == "path" || m.cfg.Strategy == "from_right":
		return m.further()
	case local(key.Addr()):
		return m.trust([]string{key.String()})
	default:
		return m.trust([]string{"NETWORK-OF-THAT-PROXY"}) // it may be somebody's own address
	}
}

// further returns the lines that look one entry further left.
func (m *Monitor) further() string {
	switch m.cfg.Strategy {
	case "from_right":
		return fmt.Sprintf("client:\n  from_right: %d", m.cfg.FromRight+1)
	case "path":
		return "client:\n  path: [OUTER-PROXY, ...]"
	case "trusted_proxies":
		return "client:\n  trusted_proxies: [..., NETWORK-OF-THAT-PROXY]"
	}
	return ""
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

func texts(networks []netip.Prefix) []string {
	list := make([]string, len(networks))
	for i, p := range networks {
		list[i] = p.String()
	}
	return list
}
