package clientip

import (
	"net/netip"
	"strings"
)

// A preset is what is known of a kind of proxy.
type preset struct {
	name    string
	ranges  string // networks and words, separated by white space; empty where no list can be known
	dated   string // the day as of which a published list is known; empty where ranges are words
	appends int    // entries that it appends to X-Forwarded-For
	header  string // header that it overwrites with the client's address; read where appends is 0
	traps   string // what to know of it, one sentence a line
}

// local are the networks of a proxy that stands beside Weir.
const local = "private unix"

// presets are in the order in which they are listed to users. A published list is dated by the day
// its copy is known to hold for, so that its age is never understated.
var presets = [...]preset{
	{name: "nginx", ranges: local, appends: 1, traps: `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; must be set: by default nginx passes the client's own X-Forwarded-For, X-Real-IP and Forwarded on and adds nothing`},
	{name: "caddy", ranges: local, appends: 1, traps: `an X-Forwarded-For from a peer that is not in trusted_proxies is dropped; behind a CDN, set trusted_proxies there, too`},
	{name: "traefik", ranges: local, appends: 1, traps: `an X-Forwarded-For from a peer that is not in forwardedHeaders.trustedIPs is dropped; behind a CDN, set it, and never insecure`},
	{name: "haproxy", ranges: local, appends: 1, traps: `option forwardfor must be set, without if-none: with it a client writes the header himself
the address comes as a line of its own, after the client's`},
	{name: "envoy", ranges: local, appends: 1, traps: `only use_remote_address: true appends the peer
a chain of more than 20 entries makes Envoy's own limits see the downstream address`},
	{name: "apache", ranges: local, appends: 1, traps: `ProxyAddHeaders must be on, which is the default; a client's Connection header can make old versions drop the chain (CVE-2022-31813)`},
	{name: "k8s-ingress", ranges: local, appends: 1, traps: `with externalTrafficPolicy: Cluster every client is a node: the load balancer hides the address; use Local
name the pods' network in cidrs to trust the ingress controller alone`},
	{name: "cloudflare", ranges: cloudflareRanges, dated: "2025-10-01", appends: 1, header: "Cf-Connecting-Ip", traps: `anybody's zone and Worker comes from the same ranges: authenticate the origin pull or check a secret header
Pseudo IPv4 puts IPv6 clients into 240.0.0.0/4
Workers of every zone share the address 2a06:98c0:3600::103
the "remove visitor IP headers" transform takes the chain away`},
	{name: "cloudfront", ranges: cloudfrontRanges, dated: "2025-10-01", appends: 1, header: "Cloudfront-Viewer-Address", traps: `anybody's distribution comes from the same ranges: check a secret header
CloudFront-Viewer-Address ends in a port without brackets: header_format: ip_port_last_colon`},
	{name: "fastly", ranges: fastlyRanges, dated: "2025-10-01", appends: 1, traps: `appends only for clients that come by TLS; two entries with shielding: appends: 2
Fastly-Client-IP can be set by the client
anybody's service comes from the same ranges: check a secret header`},
	{name: "akamai", header: "True-Client-Ip", traps: `no list of ranges is published for all: name those of your Site Shield map
True-Client-IP can be forged unless the property sends it and forbids clients to`},
	{name: "google-lb", ranges: "35.191.0.0/16 130.211.0.0/22", dated: "2025-10-01", appends: 2, traps: `two entries: the client, then the load balancer's own address; the rightmost is never the client
load balancers that are made of Envoy come from the proxy-only subnet: name it in cidrs`},
	{name: "cloud-run", ranges: "169.254.0.0/16", appends: 1, traps: `how it writes the chain is not documented and reports differ: send a request with a forged X-Forwarded-For, and compare what the upstream got`},
	{name: "aws-alb", ranges: "private", appends: 1, traps: `needs routing.http.xff_header_processing.mode append: preserve lets clients forge, remove leaves nothing
narrow cidrs to the balancer's subnets`},
	{name: "azure-appgw", ranges: "private", appends: 1, traps: `entries bear ports
narrow cidrs to the gateway's subnet`},
	{name: "azure-frontdoor", appends: 1, traps: `the ranges are the service tag AzureFrontDoor.Backend, which changes weekly: give them
anybody's profile comes from the same ranges: check X-Azure-FDID
X-Azure-ClientIP can be set by the client`},
	{name: "heroku", ranges: "private", appends: 1, traps: `the router appends; nothing else must be able to reach the dyno`},
	{name: "fly", ranges: "private", header: "Fly-Client-Ip", traps: `read is Fly-Client-IP, which the edge overwrites; the chain ends in the edge's own address`},
}

// findPreset returns the preset of that name, or nil.
func findPreset(name string) *preset {
	for i := range presets {
		if presets[i].name == name {
			return &presets[i]
		}
	}
	return nil
}

// presetNames returns the names of all presets.
func presetNames() []string {
	names := make([]string, len(presets))
	for i := range presets {
		names[i] = presets[i].name
	}
	return names
}

// networks returns the preset's networks, or what replaces them, as they are written.
func (p *preset) networks(ranges map[string][]string) []string {
	if given, ok := ranges[p.name]; ok {
		return given
	}
	return strings.Fields(p.ranges)
}

// privateRanges are the networks behind the word private.
const privateRanges = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 127.0.0.0/8 169.254.0.0/16 100.64.0.0/10 ::1/128 fc00::/7 fe80::/10"

// loopbackRanges are the networks behind the word loopback.
const loopbackRanges = "127.0.0.0/8 ::1/128"

// IsPrivate reports whether a, in canonical form, is of a network behind the word private: RFC 1918,
// loopback, link-local, shared (RFC 6598) or unique local (RFC 4193).
func IsPrivate(a netip.Addr) bool {
	if !a.Is4() {
		b := a.As16()
		return b[0]&0xfe == 0xfc || b[0] == 0xfe && b[1]&0xc0 == 0x80 || a == netip.IPv6Loopback()
	}
	switch b := a.As4(); b[0] {
	case 10, 127:
		return true
	case 172:
		return b[1]&0xf0 == 16
	case 192:
		return b[1] == 168
	case 169:
		return b[1] == 254
	case 100:
		return b[1]&0xc0 == 64
	}
	return false
}

func mustPrefixes(text string) []netip.Prefix {
	var list []netip.Prefix
	for _, field := range strings.Fields(text) {
		list = append(list, netip.MustParsePrefix(field))
	}
	return list
}
