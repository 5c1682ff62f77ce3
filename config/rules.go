package config

// A Limit is how much per how long, per whom.
type Limit struct {
	// Name, unique. Default: the rule's, or RULE/RATE/PER if the rule has several limits.
	Name string `yaml:"name"`
	// N/DURATION, such as 60/1m.
	Rate *Rate `yaml:"rate"`
	// What passes at once, for token_bucket. Default: N.
	Burst *int64 `yaml:"burst"`
	// What is counted: client, ip, key, plan, global, host, method, path, rule, header:NAME,
	// cookie:NAME, or a list of these. In place of what a request does not have, a key say, it is the address.
	Per List `yaml:"per" default:"client"`
	// How to count a rate.
	Algorithm string `yaml:"algorithm" enum:"sliding_window,sliding_log,fixed_window,token_bucket" default:"sliding_window"`
	// How many may be in flight at once, in place of rate.
	InFlight *int64 `yaml:"in_flight"`
	// N per day, week or month of the calendar, in place of rate.
	Quota *Rate `yaml:"quota"`
	// Time zone of the quota.
	Timezone string `yaml:"timezone" default:"UTC"`
	// What the limit may do. Default: what the rule may.
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
	Mode string `yaml:"mode" enum:"enforce,shadow,off" default:"enforce"`
	// What a refused asker gets.
	Action string `yaml:"action" enum:"reject,drop,tarpit,tag" default:"reject"`
	// Header that action tag sets towards the upstream.
	TagHeader string `yaml:"tag_header" default:"X-Weir-Tag"`
	// Bounds of action tarpit.
	Tarpit Tarpit `yaml:"tarpit"`
	// What one request costs.
	Cost *int64 `yaml:"cost" default:"1"`
	// What is counted by the answer.
	Count Count `yaml:"count"`
	// The limits; all are charged or none.
	Limits []Limit `yaml:"limits"`
	// What follows when the store does not answer. Default: the store's.
	OnFailure string `yaml:"on_failure" enum:"local,allow,deny"`
	// Whether a verified API key or token is required; 401 without.
	RequireKey bool `yaml:"require_key"`
	// Scopes, all of which that key or token must have; 403 without. They require one.
	Scopes []string `yaml:"scopes"`
	// The firewall's settings for this rule; what is not given is as in the top-level waf.
	WAF *RuleWAF `yaml:"waf"`
	// Longest request body; 413 above. 0: waf.max_body where bodies are inspected, else no bound.
	MaxBody Size `yaml:"max_body"`
	// Whether bodies are inspected, or streamed past the firewall, which then sees the URL and the header.
	Body string `yaml:"body" enum:"inspect,skip" default:"inspect"`
}

// DefaultRule is the rule for requests that no other rule takes.
type DefaultRule struct {
	// The limits; an empty list only watches.
	Limits []Limit `yaml:"limits"`
	// What the rule may do.
	Mode string `yaml:"mode" enum:"enforce,shadow,off" default:"enforce"`
	// What a refused asker gets.
	Action string `yaml:"action" enum:"reject,drop,tarpit,tag" default:"reject"`
}

// Tarpit bounds action tarpit.
type Tarpit struct {
	// How late the answer comes.
	Delay Duration `yaml:"delay" default:"5s"`
	// How many askers are held at once.
	MaxHeld int `yaml:"max_held" default:"100"`
	// How many of one client.
	MaxHeldPerClient int `yaml:"max_held_per_client" default:"2"`
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
