package config

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
	URL Secret `yaml:"url"`
	// How long an answer is waited for.
	Timeout Duration `yaml:"timeout" unit:"ms"`
	// Prefix of every key.
	Prefix string `yaml:"prefix"`
	// ACL user.
	Username string `yaml:"username"`
	// Password.
	Password Secret `yaml:"password"`
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
	// Paranoia level of crs, 1 to 4. Each higher one finds more, and blocks more that is innocent.
	Paranoia int `yaml:"paranoia"`
	// Score at which a request is blocked. A certain finding scores 5.
	AnomalyThreshold int `yaml:"anomaly_threshold"`
	// What the services are written in: php, java, node. Only these rule files of crs are loaded beside
	// the common ones. Empty: all.
	Languages []string `yaml:"languages"`
	// Findings to pass over.
	Exclude []Exclude `yaml:"exclude"`
	// Longest body that is inspected, where the rule has no max_body; 413 above.
	MaxBody Size `yaml:"max_body"`
	// Longest compressed body once it is inflated; 413 above, and above 100 times its size.
	MaxInflated Size `yaml:"max_inflated"`
	// Deepest nesting of a body; 400 below.
	MaxDepth int `yaml:"max_depth"`
	// Most values in a body; 413 above.
	MaxValues int `yaml:"max_values"`
	// Most text that is handed to the rules, without numbers, short words and base64; 413 above. Where it is
	// not given, fast takes as much as max_body.
	InspectBytes Size `yaml:"inspect_bytes"`
	// For the whole of an inspected body, and for a pause in any other; 408 afterwards.
	BodyTimeout Duration `yaml:"body_timeout"`
	// Slowest body, on average once half of body_timeout is over; 408 below. 0B/s: none is too slow.
	MinRate ByteRate `yaml:"min_rate"`
	// How long a request waits for one of the inspection slots, of which there are as many as cores.
	MaxWait Duration `yaml:"max_wait"`
	// What follows when no slot is free in time: 503, or the request passes uninspected.
	OnSaturation string `yaml:"on_saturation" enum:"reject,pass"`
	// What is masked in logs and reports: names of patterns, or regex:PATTERN.
	Mask []string `yaml:"mask"`
	// How many blocked requests are kept in memory.
	Keep int `yaml:"keep"`
}

// RuleWAF are the firewall's settings that a rule may change.
type RuleWAF struct {
	// Whether a finding blocks the request or is reported only.
	Mode string `yaml:"mode" enum:"off,detect,block"`
	// Set of rules.
	Ruleset string `yaml:"ruleset" enum:"fast,crs"`
	// Paranoia level of crs.
	Paranoia int `yaml:"paranoia"`
	// Score at which a request is blocked.
	AnomalyThreshold int `yaml:"anomaly_threshold"`
	// What the service is written in.
	Languages []string `yaml:"languages"`
	// Most text that is handed to the rules.
	InspectBytes Size `yaml:"inspect_bytes"`
	// For the whole of an inspected body, and for a pause in any other.
	BodyTimeout Duration `yaml:"body_timeout"`
	// Slowest body.
	MinRate ByteRate `yaml:"min_rate"`
}

// Exclude passes over a finding.
type Exclude struct {
	// Id of the firewall's rule, as in the list of blocked requests.
	Rule string `yaml:"rule"`
	// Path as in rules. Empty: everywhere.
	Path string `yaml:"path"`
	// Name of the parameter. Empty: any.
	Parameter string `yaml:"parameter"`
	// Why, for the operator.
	Reason string `yaml:"reason"`
	// Last day on which it holds, in UTC, as in 2026-12-31. Empty: no end.
	Until string `yaml:"until"`
	// On trial: what it would release is still blocked, and marked.
	Shadow bool `yaml:"shadow"`
}

// Keys says where API keys are read. None are where the file speaks neither of keys nor of plans, and no rule
// requires one: write keys: {} to read them as is the default.
type Keys struct {
	// Header that bears the key. Empty: none.
	Header string `yaml:"header"`
	// Whether Authorization: Bearer may bear the key. Tokens that do not begin with weir_ are left alone.
	Bearer bool `yaml:"bearer"`
	// Query parameter that may bear the key. Empty: none. Keys in URLs leak.
	Query string `yaml:"query"`
	// Whether every request needs a key.
	Required bool `yaml:"required"`
	// Whether the upstream gets the key itself, and not only X-Weir-Key-Id and X-Weir-Plan.
	ForwardSecret bool `yaml:"forward_secret"`
	// PostgreSQL for the keys of several replicas: postgres://USER:PASSWORD@HOST:5432/NAME. Empty: the
	// embedded database in data_dir.
	PostgresURL Secret `yaml:"postgres_url"`
	// How long keys that are known are good while PostgreSQL does not answer. Others are answered 503.
	Grace Duration `yaml:"grace"`
}

// JWT says which JSON Web Tokens, sent as Authorization: Bearer, are an identity. Without a key set no token is
// read.
type JWT struct {
	// URL of the key set. It is fetched at the start, as its Cache-Control says, and when a token names a
	// key that is not in it.
	JWKSURL string `yaml:"jwks_url"`
	// File of the key set. It is read again when it changes.
	JWKSFile string `yaml:"jwks_file"`
	// Required iss. Empty: any.
	Issuer string `yaml:"issuer"`
	// Required among aud. Empty: any.
	Audience string `yaml:"audience"`
	// Claim that is the key: text, or a whole number. Its counters' key is jwt: and the claim.
	Claim string `yaml:"claim"`
	// Claim that is the plan. Empty: none.
	PlanClaim string `yaml:"plan_claim"`
}

// A Plan is what an API key or token may use.
type Plan struct {
	// Limits that stand in place of a rule's per: client limits, or beside its limits.
	Limits []PlanLimit `yaml:"limits"`
	// Calendar quotas of each key over all rules, such as 1000/day; at most one for each period.
	Quota []Rate `yaml:"quota"`
	// Time zone of the quotas.
	Timezone string `yaml:"timezone" default:"UTC"`
}

// A PlanLimit is a limit of a plan. Without a name it is called PLAN/RULE, or PLAN/RULE/RATE/PER if the plan has
// several for that rule.
type PlanLimit struct {
	// Name of the rule, or default, whose per: client limits it replaces. Empty: it holds beside every
	// rule's limits, and all rules have one count.
	Rule  string `yaml:"rule"`
	Limit `yaml:",inline"`
}

// A Penalty bans who offends too often. Never banned are clients that could not be resolved, the networks of the
// proxies in client, loopback, and whom allow names.
type Penalty struct {
	// How many of what in how long, of one client: N denials (refusals by limits), N blocks (by the firewall) or
	// N statuses (of the upstream), as in 20 denials in 1m.
	After Offences `yaml:"after"`
	// For how long; several, separated by commas, are for the first time and each time after. One step is
	// forgiven for each span of the longest without an offence.
	Ban Terms `yaml:"ban"`
	// Who is banned: the address, the API key if there is one and else the address, or the API key alone.
	Per string `yaml:"per" enum:"ip,client,key" default:"ip"`
	// HTTP statuses of the upstream that offend, where statuses are counted.
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
	// Directory or file in the format of envoyproxy/ratelimit, or xds://HOST:PORT/NODE of a control
	// plane that serves it.
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
	// How many of the clients that ask most are a metric, by rank: at most 100. Addresses are written as in the log.
	TopClients int `yaml:"top_clients"`
}

// Tracing says where traces go.
type Tracing struct {
	// URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; without a path, /v1/traces of that host. Empty: none.
	OTLPEndpoint string `yaml:"otlp_endpoint"`
	// Share of requests that are traced, from 0 to 1, of those whose caller did not decide: traceparent is obeyed.
	Sample float64 `yaml:"sample"`
}
