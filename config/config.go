// Package config holds the configuration file as plain data: its shape, its defaults, and a strict
// reader that reports every problem of a file at once, each with its place.
//
// Nobody but the packages policy, app, admin and cmd reads a Config, and nobody writes one after
// Parse returned it.
//
// The comments on the fields are the configuration reference, docs/configuration.md, and the
// descriptions in the JSON Schema; both are generated from this file.
package config

// A Config is the whole configuration file.
type Config struct {
	// Whether Weir does anything at all. When false, every request passes through untouched.
	Enabled bool `yaml:"enabled"`
	// Address of the reverse-proxy front, such as :8080, or unix:/run/weir.sock. Empty: no such front.
	Listen string `yaml:"listen"`
	// Certificate and key of the reverse-proxy front.
	TLS TLS `yaml:"tls"`
	// Peers that speak the PROXY protocol.
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
	// Address of the admin API, metrics and health. Empty: none.
	Admin string `yaml:"admin"`
	// Bearer token of the admin API. Required unless the admin address is loopback.
	AdminToken Secret `yaml:"admin_token"`
	// Bearer token that may only read.
	AdminReadToken Secret `yaml:"admin_read_token"`
	// URL of the service behind Weir, for every request that no route takes.
	Upstream string `yaml:"upstream"`
	// Upstreams by host and path; the most specific wins.
	Routes []Route `yaml:"routes"`
	// How long the proxy waits for an upstream.
	UpstreamTimeouts UpstreamTimeouts `yaml:"upstream_timeouts"`
	// Bounds of the reverse-proxy front.
	Server Server `yaml:"server"`
	// Directory of the embedded database. It is made when first needed.
	DataDir string `yaml:"data_dir"`
	// Whether GET /.well-known/weir/whoami tells an asker what was resolved for that very request.
	Whoami bool `yaml:"whoami"`
	// Who is asking.
	Client Client `yaml:"client"`
	// How paths are compared.
	Matching Matching `yaml:"matching"`
	// Which rate limit header fields answers carry.
	Headers string `yaml:"headers" enum:"draft,legacy,both,off"`
	// Whether X-RateLimit-Reset is seconds from now (delta) or Unix time (epoch).
	LegacyReset string `yaml:"legacy_reset" enum:"delta,epoch"`
	// Prefix of the "type" of problem documents. Empty: the IANA registry's types.
	ProblemTypeBase string `yaml:"problem_type_base"`
	// Whether refusals are HTML for askers that prefer it.
	HTML bool `yaml:"html"`
	// What browsers of other origins may see of a refusal.
	CORS CORS `yaml:"cors"`
	// Limits for every request that is not exempt.
	Limits []Limit `yaml:"limits"`
	// Exactly one rule applies to a request: the most specific.
	Rules []Rule `yaml:"rules"`
	// The rule for everything else.
	Default DefaultRule `yaml:"default"`
	// Clients that beat limits and bans. Never applies to unresolved or peer_only clients.
	Allow []Allow `yaml:"allow"`
	// Networks whose requests are not counted. Bans still hold.
	ExemptAddresses []string `yaml:"exempt_addresses"`
	// Where counts live.
	Store Store `yaml:"store"`
	// The web application firewall.
	WAF WAF `yaml:"waf"`
	// Where API keys are read.
	Keys Keys `yaml:"keys"`
	// Verified JSON Web Tokens as identity.
	JWT JWT `yaml:"jwt"`
	// Plans of API keys and tokens, by name.
	Plans map[string]Plan `yaml:"plans"`
	// Whether GET /.well-known/weir/limits tells an asker what its own limits have left.
	SelfService bool `yaml:"self_service"`
	// The penalty box.
	Penalties []Penalty `yaml:"penalties"`
	// The forward-auth front, for nginx, Caddy and Traefik.
	ForwardAuth Front `yaml:"forward_auth"`
	// The Envoy rate limit service.
	RLS RLS `yaml:"rls"`
	// The Envoy ext_authz front.
	ExtAuthz Front `yaml:"ext_authz"`
	// The HAProxy SPOE agent.
	SPOE Front `yaml:"spoe"`
	// What is logged, and how.
	Log Log `yaml:"log"`
	// What is measured beyond the default.
	Metrics Metrics `yaml:"metrics"`
	// Where traces go.
	Tracing Tracing `yaml:"tracing"`

	file   string              // what Parse was told the file is called
	places map[string]place    // where each field was given, by its path
	broken map[string]bool     // the fields that have an error, or a part that has one
	ranges map[string][]string // what client.ranges_file holds
}

// TLS names a certificate and its key. Both files are read again when they change.
type TLS struct {
	// File of the certificate chain, PEM.
	Cert string `yaml:"cert"`
	// File of the private key, PEM.
	Key string `yaml:"key"`
}

// ProxyProtocol lists the peers that must send a PROXY protocol header.
type ProxyProtocol struct {
	// Networks; a connection from one of them must begin with the header, from others must not.
	From []string `yaml:"from"`
}

// A Route sends part of the traffic to an upstream.
type Route struct {
	// Host as in rules. Empty: any.
	Host string `yaml:"host"`
	// Path as in rules. Empty: any.
	Path string `yaml:"path"`
	// URL of the upstream: http, https or h2c.
	Upstream string `yaml:"upstream"`
}

// UpstreamTimeouts are how long the proxy waits for an upstream.
type UpstreamTimeouts struct {
	// For a connection.
	Connect Duration `yaml:"connect"`
	// For the header of the answer; 504 afterwards.
	ResponseHeader Duration `yaml:"response_header"`
	// Before an unused connection is closed.
	Idle Duration `yaml:"idle"`
}

// Server bounds the reverse-proxy front.
type Server struct {
	// For the whole request header; 408 afterwards.
	HeaderTimeout Duration `yaml:"header_timeout"`
	// Before an unused connection is closed.
	IdleTimeout Duration `yaml:"idle_timeout"`
	// Largest request header; 431 above.
	MaxHeader Size `yaml:"max_header"`
	// How long requests may go on after SIGTERM.
	Drain Duration `yaml:"drain"`
}

// Client says how the client's address is found. At most one of path, header, trusted_proxies and
// from_right is given; without any, the client is the peer.
type Client struct {
	// The proxies in travel order; the last one connects to Weir. An entry is a preset's name or a
	// mapping {name, cidrs, appends, header}.
	Path []Hop `yaml:"path"`
	// Read RFC 7239 Forwarded in place of X-Forwarded-For.
	Forwarded bool `yaml:"forwarded"`
	// One header that the edge overwrites, such as CF-Connecting-IP.
	Header string `yaml:"header"`
	// Peers whose headers are believed, for header and from_right: networks, presets, private,
	// loopback or unix. Default with from_right: private and unix.
	Peers []string `yaml:"peers"`
	// With header, where a proxy stands between the edge and Weir: the networks of the edge.
	Via []string `yaml:"via"`
	// Walk from the right past every address of these networks; the first other one is the client.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// The N-th entry from the right of the chain. 1 is what the nearest proxy appended.
	FromRight int `yaml:"from_right"`
	// How the header writes an address: ip, or ip_port_last_colon for CloudFront-Viewer-Address.
	HeaderFormat string `yaml:"header_format" enum:"ip,ip_port_last_colon"`
	// How many bits of an IPv4 address make one client.
	IPv4Prefix int `yaml:"ipv4_prefix"`
	// How many bits of an IPv6 address make one client.
	IPv6Prefix int `yaml:"ipv6_prefix"`
	// Wider IPv6 networks and how many times the limit each may use: {56: 4x, 48: 16x}.
	IPv6Tiers map[int]Multiple `yaml:"ipv6_tiers"`
	// What happens to unresolved clients.
	Unresolved string `yaml:"unresolved" enum:"limit,reject,allow"`
	// YAML file that replaces the presets' ranges: a mapping of preset to list of networks.
	RangesFile string `yaml:"ranges_file"`
	// Whether the upstream gets the client alone (replace) or the trusted part of the chain (append).
	Forward string `yaml:"forward" enum:"replace,append"`
	// Accept 0.0.0.0/0 or ::/0 as trusted: anyone can then choose his own address.
	DangerouslyTrustEveryone bool `yaml:"dangerously_trust_everyone"`
}

// A Hop is one proxy on the way: a preset's name, or what is known of it.
type Hop struct {
	// Name of a preset, or any name where cidrs are given.
	Name string `yaml:"name"`
	// Networks the proxy connects from. Empty: the preset's.
	CIDRs []string `yaml:"cidrs"`
	// How many entries it appends to the chain: 0, 1 or 2. Unset: the preset's, else 1.
	Appends *int `yaml:"appends"`
	// Header that it overwrites with the client's address. Empty: the preset's.
	Header string `yaml:"header"`
}

// Matching says how paths are compared.
type Matching struct {
	// Whether ambiguous paths are limited or answered 400.
	AmbiguousPaths string `yaml:"ambiguous_paths" enum:"limit,reject"`
	// Whether upper and lower case are the same.
	CaseInsensitive bool `yaml:"case_insensitive"`
}

// CORS says what browsers of other origins may see of a refusal.
type CORS struct {
	// Access-Control-Allow-Origin of refusals: an origin, several separated by commas, of which the
	// asker's own is answered, or *. Empty: none.
	AllowOrigin string `yaml:"allow_origin"`
	// Whether CORS preflight requests are not counted.
	ExemptPreflight bool `yaml:"exempt_preflight"`
}
