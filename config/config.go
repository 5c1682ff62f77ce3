// Package config holds the configuration file as plain data: its shape, its defaults, and a strict
// reader that reports every problem of a file at once, each with its place.
//
// Nobody but the packages policy, app, admin and cmd reads a Config, and nobody writes one after
// Parse returned it.
//
// The comments on the fields are the configuration reference, docs/configuration.md, and the
// descriptions in the JSON Schema; both are generated from this file.
package config

import "time"

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
	AdminToken string `yaml:"admin_token" secret:"true"`
	// Bearer token that may only read.
	AdminReadToken string `yaml:"admin_read_token" secret:"true"`
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
	// Plans of API keys, by name.
	Plans map[string]Plan `yaml:"plans"`
	// Whether GET /.well-known/weir/limits tells a client its own state.
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
	// Access-Control-Allow-Origin of refusals: an origin, or *. Empty: none.
	AllowOrigin string `yaml:"allow_origin"`
	// Whether CORS preflight requests are not counted.
	ExemptPreflight bool `yaml:"exempt_preflight"`
}

// A Limit is how much per how long, per whom.
type Limit struct {
	// Name, unique. Default: the rule's, or RULE/RATE/PER if the rule has several limits.
	Name string `yaml:"name"`
	// N/DURATION, such as 60/1m.
	Rate *Rate `yaml:"rate"`
	// What passes at once, for token_bucket. Default: N.
	Burst *int64 `yaml:"burst"`
	// What is counted: client, ip, key, plan, global, host, method, path, rule, header:NAME,
	// cookie:NAME, or a list of these.
	Per List `yaml:"per"`
	// How to count.
	Algorithm string `yaml:"algorithm" enum:"sliding_window,sliding_log,fixed_window,token_bucket"`
	// How many may be in flight at once, in place of rate.
	InFlight *int64 `yaml:"in_flight"`
	// N per day, week or month of the calendar, in place of rate.
	Quota *Rate `yaml:"quota"`
	// Time zone of the quota. Default: UTC.
	Timezone string `yaml:"timezone"`
	// What the limit may do.
	Mode string `yaml:"mode" enum:"enforce,shadow,off"`
}

// A Rule is where limits apply and what follows.
type Rule struct {
	// Name, unique.
	Name string `yaml:"name"`
	// Host: a name, or *.example.com for all below. Empty: any.
	Host string `yaml:"host"`
	// Path and all below it; * stands for one segment; =PATH is that path alone. Empty: any.
	Path string `yaml:"path"`
	// Methods. Empty: any.
	Methods []string `yaml:"methods"`
	// Skip counting and the limits for every request. Bans still hold.
	Exempt bool `yaml:"exempt"`
	// What the rule may do.
	Mode string `yaml:"mode" enum:"enforce,shadow,off"`
	// What a refused asker gets.
	Action string `yaml:"action" enum:"reject,drop,tarpit,tag"`
	// Header that action tag sets towards the upstream. Default: X-Weir-Tag.
	TagHeader string `yaml:"tag_header"`
	// Bounds of action tarpit.
	Tarpit Tarpit `yaml:"tarpit"`
	// What one request costs.
	Cost *int64 `yaml:"cost"`
	// What is counted by the answer.
	Count Count `yaml:"count"`
	// The limits; all are charged or none.
	Limits []Limit `yaml:"limits"`
	// What follows when the store does not answer. Default: the store's.
	OnFailure string `yaml:"on_failure" enum:"local,allow,deny"`
	// Whether a verified API key is required.
	RequireKey bool `yaml:"require_key"`
	// Scopes that the key must have.
	Scopes []string `yaml:"scopes"`
	// The firewall's settings for this rule; what is not given is as in the top-level waf.
	WAF *RuleWAF `yaml:"waf"`
	// Largest request body; 413 above.
	MaxBody Size `yaml:"max_body"`
	// Whether bodies are inspected or streamed past the firewall.
	Body string `yaml:"body" enum:"inspect,skip"`
}

// DefaultRule is the rule for requests that no other rule takes.
type DefaultRule struct {
	// The limits; an empty list only watches.
	Limits []Limit `yaml:"limits"`
	// What the rule may do.
	Mode string `yaml:"mode" enum:"enforce,shadow,off"`
	// What a refused asker gets.
	Action string `yaml:"action" enum:"reject,drop,tarpit,tag"`
}

// Tarpit bounds action tarpit.
type Tarpit struct {
	// How late the answer comes.
	Delay Duration `yaml:"delay"`
	// How many askers are held at once.
	MaxHeld int `yaml:"max_held"`
	// How many of one client.
	MaxHeldPerClient int `yaml:"max_held_per_client"`
}

// Count says what is charged by the answer.
type Count struct {
	// Charge only answers of these HTTP statuses, after the answer.
	OnlyStatuses []int `yaml:"only_statuses"`
	// Methods that are not charged.
	SkipMethods []string `yaml:"skip_methods"`
}

// Allow names who beats limits and bans. Exactly one of cidr, key and plan is given.
type Allow struct {
	// Network.
	CIDR string `yaml:"cidr"`
	// Id of an API key.
	Key string `yaml:"key"`
	// Plan.
	Plan string `yaml:"plan"`
	// Why, for the operator.
	Reason string `yaml:"reason"`
}

// Store says where counts live.
type Store struct {
	// Redis or a compatible server. Omit for memory.
	Redis Redis `yaml:"redis"`
	// The store in memory.
	Memory Memory `yaml:"memory"`
	// What follows when the store does not answer.
	OnFailure string `yaml:"on_failure" enum:"local,allow,deny"`
	// How many replicas run; the local fallback grants limit/replicas each.
	Replicas int `yaml:"replicas"`
	// When the store is left alone for a while.
	Breaker Breaker `yaml:"breaker"`
}

// Redis says how a Redis server is reached.
type Redis struct {
	// redis:// or rediss:// URL; several, separated by commas, for Sentinel and Cluster.
	URL string `yaml:"url" secret:"true"`
	// How long an answer is waited for.
	Timeout Duration `yaml:"timeout"`
	// Prefix of every key.
	Prefix string `yaml:"prefix"`
	// ACL user.
	Username string `yaml:"username"`
	// Password.
	Password string `yaml:"password" secret:"true"`
	// TLS settings of the connection.
	TLS RedisTLS `yaml:"tls"`
	// Name of the master, for Sentinel.
	SentinelMaster string `yaml:"sentinel_master"`
}

// RedisTLS are the TLS settings of the connection to Redis.
type RedisTLS struct {
	// File of the certificate authority, PEM.
	CA string `yaml:"ca"`
	// File of the client certificate, PEM.
	Cert string `yaml:"cert"`
	// File of the client certificate's key, PEM.
	Key string `yaml:"key"`
	// Name to verify. Default: the host of the URL.
	ServerName string `yaml:"server_name"`
}

// Memory bounds the store in memory.
type Memory struct {
	// Most counters kept. Beyond, expired ones are forgotten first, then those with most left.
	MaxKeys int `yaml:"max_keys"`
}

// Breaker says when the store is left alone for a while.
type Breaker struct {
	// Failures in a row that open it.
	Failures int `yaml:"failures"`
	// How often the store is tried while it is open.
	ProbeEvery Duration `yaml:"probe_every"`
}

// WAF is the web application firewall.
type WAF struct {
	// Whether requests are inspected.
	Enabled bool `yaml:"enabled"`
	// Whether a finding blocks the request or is reported only.
	Mode string `yaml:"mode" enum:"off,detect,block"`
	// Set of rules.
	Ruleset string `yaml:"ruleset" enum:"fast,crs"`
	// Paranoia level of crs.
	Paranoia int `yaml:"paranoia"`
	// Anomaly score at which crs blocks.
	AnomalyThreshold int `yaml:"anomaly_threshold"`
	// Rule files of crs to load besides the common ones.
	Languages []string `yaml:"languages"`
	// Findings to pass over.
	Exclude []Exclude `yaml:"exclude"`
	// Largest body.
	MaxBody Size `yaml:"max_body"`
	// Largest body after inflating.
	MaxInflated Size `yaml:"max_inflated"`
	// Deepest nesting of a body.
	MaxDepth int `yaml:"max_depth"`
	// Most values in a body.
	MaxValues int `yaml:"max_values"`
	// Most text handed to the rules.
	InspectBytes Size `yaml:"inspect_bytes"`
	// For the whole body; 408 afterwards.
	BodyTimeout Duration `yaml:"body_timeout"`
	// Slowest body; 408 below.
	MinRate ByteRate `yaml:"min_rate"`
	// How long a request waits for an inspection slot.
	MaxWait Duration `yaml:"max_wait"`
	// What follows when no slot is free in time.
	OnSaturation string `yaml:"on_saturation" enum:"reject,pass"`
	// What is masked in reports: names of patterns, or regex:PATTERN.
	Mask []string `yaml:"mask"`
	// How many blocked requests are kept.
	Keep int `yaml:"keep"`
}

// RuleWAF are the firewall's settings that a rule may change.
type RuleWAF struct {
	// Whether a finding blocks the request or is reported only.
	Mode string `yaml:"mode" enum:"off,detect,block"`
	// Set of rules.
	Ruleset string `yaml:"ruleset" enum:"fast,crs"`
}

// Exclude passes over a finding.
type Exclude struct {
	// Id of the rule.
	Rule string `yaml:"rule"`
	// Path as in rules.
	Path string `yaml:"path"`
	// Name of the parameter.
	Parameter string `yaml:"parameter"`
	// Why, for the operator.
	Reason string `yaml:"reason"`
	// Date after which the exclusion ends, YYYY-MM-DD.
	Until string `yaml:"until"`
}

// Keys says where API keys are read.
type Keys struct {
	// Header that bears the key.
	Header string `yaml:"header"`
	// Whether Authorization: Bearer bears the key.
	Bearer bool `yaml:"bearer"`
	// Query parameter that bears the key. Empty: none.
	Query string `yaml:"query"`
	// Whether every request needs a key.
	Required bool `yaml:"required"`
	// Whether the upstream gets the secret.
	ForwardSecret bool `yaml:"forward_secret"`
	// PostgreSQL for the keys of several replicas. Empty: the embedded database.
	PostgresURL string `yaml:"postgres_url" secret:"true"`
	// How long known keys are good while the backend is down.
	Grace Duration `yaml:"grace"`
}

// JWT says which JSON Web Tokens are an identity.
type JWT struct {
	// URL of the key set.
	JWKSURL string `yaml:"jwks_url"`
	// File of the key set.
	JWKSFile string `yaml:"jwks_file"`
	// Required iss.
	Issuer string `yaml:"issuer"`
	// Required aud.
	Audience string `yaml:"audience"`
	// Claim that is the key.
	Claim string `yaml:"claim"`
	// Claim that is the plan. Empty: none.
	PlanClaim string `yaml:"plan_claim"`
}

// A Plan is what an API key may use.
type Plan struct {
	// Limits that replace or add to those of the rule they name.
	Limits []PlanLimit `yaml:"limits"`
	// Calendar quotas, such as 1000/day.
	Quota []Rate `yaml:"quota"`
	// Time zone of the quotas.
	Timezone string `yaml:"timezone"`
}

// A PlanLimit is a limit of a plan, for the rule that it names.
type PlanLimit struct {
	// Name of the rule. Empty: every rule.
	Rule  string `yaml:"rule"`
	Limit `yaml:",inline"`
}

// A Penalty bans who offends too often.
type Penalty struct {
	// How many of what in how long: 20 denials in 1m.
	After string `yaml:"after"`
	// For how long; several, separated by commas, escalate.
	Ban string `yaml:"ban"`
	// Who is banned.
	Per string `yaml:"per" enum:"ip,client,key"`
	// HTTP statuses of the upstream that offend.
	Statuses []int `yaml:"statuses"`
}

// A Front is where a front listens.
type Front struct {
	// Address. Empty: no such front.
	Listen string `yaml:"listen"`
}

// RLS is the Envoy rate limit service.
type RLS struct {
	// Address. Empty: no such front.
	Listen string `yaml:"listen"`
	// Directory or file in the format of envoyproxy/ratelimit.
	Config string `yaml:"config"`
	// Whether to count and store as envoyproxy/ratelimit does.
	Compat bool `yaml:"compat"`
}

// Log says what is logged, and how.
type Log struct {
	// Form of a line.
	Format string `yaml:"format" enum:"json,text"`
	// Least level.
	Level string `yaml:"level" enum:"debug,info,warn,error"`
	// How client addresses are written.
	Addresses string `yaml:"addresses" enum:"full,masked,hashed"`
	// Most lines about refusals; the rest is counted.
	RefusalsPerSecond int `yaml:"refusals_per_second"`
}

// Metrics says what is measured beyond the default.
type Metrics struct {
	// How many top clients are exported, by rank.
	TopClients int `yaml:"top_clients"`
}

// Tracing says where traces go.
type Tracing struct {
	// OTLP endpoint. Empty: none.
	OTLPEndpoint string `yaml:"otlp_endpoint"`
	// Share of requests that are traced, from 0 to 1.
	Sample float64 `yaml:"sample"`
}

// A Duration is written with units: 90s, 1m30s, 1d.
type Duration time.Duration

// A Size is a number of bytes, written with a unit: 64KiB, 1MiB.
type Size int64

// A ByteRate is bytes per second, written 500B/s.
type ByteRate int64

// A Multiple is written 4x.
type Multiple int64

// A List is one value or a list of them.
type List []string

// A Rate is N per time: 60/1m, 1000 per day, 5/s.
type Rate struct {
	N      int64
	Window time.Duration
	// Unit is the word that stood for the window, such as day, or empty. In a quota it is a calendar period.
	Unit string
	// Text is the rate as written.
	Text string
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Enabled:          true,
		Admin:            "127.0.0.1:9090",
		UpstreamTimeouts: UpstreamTimeouts{Connect: Duration(3 * time.Second), ResponseHeader: Duration(60 * time.Second), Idle: Duration(90 * time.Second)},
		Server:           Server{HeaderTimeout: Duration(5 * time.Second), IdleTimeout: Duration(120 * time.Second), MaxHeader: 64 << 10, Drain: Duration(30 * time.Second)},
		DataDir:          "weir-data",
		Client:           Client{HeaderFormat: "ip", IPv4Prefix: 32, IPv6Prefix: 64, IPv6Tiers: map[int]Multiple{56: 4, 48: 16}, Unresolved: "limit", Forward: "replace"},
		Matching:         Matching{AmbiguousPaths: "limit"},
		Headers:          "draft",
		LegacyReset:      "delta",
		CORS:             CORS{ExemptPreflight: true},
		Default: DefaultRule{
			Limits: []Limit{{Rate: &Rate{N: 300, Window: time.Minute, Text: "300/1m"}, Per: List{"client"}}},
		},
		Store: Store{
			Redis:     Redis{Timeout: Duration(15 * time.Millisecond), Prefix: "weir"},
			Memory:    Memory{MaxKeys: 1_000_000},
			OnFailure: "local",
			Replicas:  1,
			Breaker:   Breaker{Failures: 3, ProbeEvery: Duration(time.Second)},
		},
		WAF: WAF{
			Enabled: true, Mode: "block", Ruleset: "fast", Paranoia: 1, AnomalyThreshold: 5,
			MaxBody: 1 << 20, MaxInflated: 1 << 20, MaxDepth: 64, MaxValues: 2000, InspectBytes: 128 << 10,
			BodyTimeout: Duration(10 * time.Second), MinRate: 500,
			MaxWait: Duration(50 * time.Millisecond), OnSaturation: "reject",
			Mask: []string{"wallet", "token", "email", "card", "iban", "phone"}, Keep: 1000,
		},
		Keys: Keys{Header: "X-API-Key", Grace: Duration(time.Minute)},
		JWT:  JWT{Claim: "sub"},
		RLS:  RLS{Compat: true},
		Log:  Log{Format: "json", Level: "info", Addresses: "masked", RefusalsPerSecond: 10},
	}
}
