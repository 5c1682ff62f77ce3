package config

import "time"

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
