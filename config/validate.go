package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A checker gathers what is wrong with values that could be read.
type checker struct {
	*Config
	bad      map[string]bool // fields that have an error already
	problems []Problem
}

// wrong notes an error, unless field has a problem already: one is enough to mend.
func (k *checker) wrong(field, what, cure string) {
	p := k.Problem(field, what, cure)
	if !k.broken(field) && len(k.problems) < maxProblems {
		k.bad[field] = true
		k.problems = append(k.problems, p)
	}
}

// broken reports whether field could not be read, or is known to be wrong.
func (k *checker) broken(field string) bool { return k.bad[field] || k.bad[field+"_file"] }

// missing reports whether field, whose value is empty, is so by the file's will.
func (k *checker) missing(field, value string) bool { return value == "" && !k.broken(field) }

// doubt notes a warning.
func (k *checker) doubt(field, what, cure string) {
	if !k.broken(field) && len(k.problems) < maxProblems {
		k.problems = append(k.problems, k.Warn(field, what, cure))
	}
}

// want notes value as an error if there is something to write in its place. An empty value is what
// the field's absence means.
func (k *checker) want(field, value, want string) {
	if value != "" && want != "" {
		k.wrong(field, shown(value), want)
	}
}

// between notes n as an error unless it is from least to most.
func (k *checker) between(field string, n, least, most int) {
	if n < least || n > most {
		k.wrong(field, fmt.Sprint(n), fmt.Sprintf("want %d to %d", least, most))
	}
}

// span notes d as an error unless it is from least to most.
func (k *checker) span(field string, d, least, most Duration) {
	if d < least || d > most {
		k.wrong(field, d.String(), fmt.Sprintf("want %s to %s", least, most))
	}
}

// validate returns what is wrong with the values of c. known are the problems that reading it gave.
func (c *Config) validate(known []Problem) []Problem {
	k := &checker{Config: c, bad: map[string]bool{}}
	for _, p := range known {
		if !p.Warning {
			k.bad[p.Field] = true
		}
	}
	for field, at := range c.places {
		if at.variable != "" && k.bad[at.variable] {
			k.bad[field] = true
		}
	}
	k.asleep()
	k.fronts()
	k.adminTokens()
	k.upstreams()
	k.client()
	k.answers()
	k.limits()
	k.rules()
	k.bounds()
	k.askedOnly()
	k.waf()
	k.penalties()
	k.keys()
	k.plans()
	k.tokens()
	k.keyless()
	c.settleBroken(k.bad)
	return k.problems
}

// settle gives what the file leaves out a value that suits what the file says.
func (c *Config) settle() {
	if !c.Given("client.ipv6_tiers") {
		maps.DeleteFunc(c.Client.IPv6Tiers, func(bits int, _ Multiple) bool { return bits >= c.Client.IPv6Prefix })
	}
	for i := range c.Rules {
		t := &c.Rules[i].Tarpit
		at := fmt.Sprintf("rules[%d].tarpit.", i)
		if !c.Given(at + "delay") {
			t.Delay = Duration(5 * time.Second)
		}
		if !c.Given(at + "max_held") {
			t.MaxHeld = 100
		}
		if !c.Given(at + "max_held_per_client") {
			t.MaxHeldPerClient = min(2, t.MaxHeld)
		}
	}
}

// asleep warns where Weir does nothing, which nobody sees from outside.
func (k *checker) asleep() {
	if !k.Enabled {
		k.doubt("enabled", "false: nothing is limited, inspected or banned", "remove it where this is not meant")
	}
}

// LeastToken is the length of a token of the admin API, in bytes, below which it may be guessed.
const LeastToken = 16

// adminTokens warns of tokens that can be guessed from elsewhere.
func (k *checker) adminTokens() {
	if k.Admin == "" || isLoopback(k.Admin) {
		return
	}
	for _, token := range []struct {
		field string
		value Secret
	}{{"admin_token", k.AdminToken}, {"admin_read_token", k.AdminReadToken}} {
		if n := len(token.value); n > 0 && n < LeastToken && !k.broken(token.field) {
			k.doubt(token.field, fmt.Sprintf("shorter than %d characters, so it may be guessed", LeastToken), "take what openssl rand -hex 32 prints")
		}
	}
}

func (k *checker) fronts() {
	k.addresses()
	if k.Admin != "" && !isLoopback(k.Admin) && k.missing("admin_token", string(k.AdminToken)) {
		k.wrong("admin", shown(k.Admin)+" can be reached from outside, and there is no admin_token", "set admin_token or admin_token_file, or listen on 127.0.0.1")
	}
	switch {
	case k.TLS.Cert != "" && k.TLS.Key == "":
		k.wrong("tls", "cert has no key", "give both, or neither")
	case k.TLS.Cert == "" && k.TLS.Key != "":
		k.wrong("tls", "key has no cert", "give both, or neither")
	case k.TLS.Cert != "" && k.missing("listen", k.Listen):
		k.doubt("tls", "no front uses it", "give listen")
	}
	if k.ForwardAuth.Listen != "" && !k.believesProxies() {
		k.wrong("forward_auth.listen", "nothing says who the asking proxy's clients are", "say where it stands, as in client: {path: [nginx]}")
	}
	if k.RLS.Listen != "" && k.missing("rls.config", k.RLS.Config) {
		k.wrong("rls.config", "missing", "give the directory or file of the descriptors, as in rls: {config: /etc/ratelimit/config}")
	}
	if k.RLS.Listen == "" && k.RLS.Config != "" {
		k.doubt("rls", "nothing uses it", `give rls.listen, as in ":8081"`)
	}
}

// believesProxies reports whether any peer's word about its client is taken.
func (k *checker) believesProxies() bool {
	c := &k.Client
	return len(c.Path) > 0 || c.Header != "" || len(c.TrustedProxies) > 0 || c.FromRight > 0 ||
		k.broken("client.path") || k.broken("client.header") || k.broken("client.trusted_proxies") || k.broken("client.from_right")
}

func (k *checker) upstreams() {
	k.service("upstream", k.Upstream)
	for i, r := range k.Routes {
		at := fmt.Sprintf("routes[%d].", i)
		k.want(at+"host", r.Host, wantHost(r.Host))
		k.want(at+"path", r.Path, wantPath(r.Path))
		k.template(at+"path", r.Path)
		k.service(at+"upstream", r.Upstream)
		if k.missing(at+"upstream", r.Upstream) {
			k.wrong(at+"upstream", "missing", "give the service's URL, as in http://127.0.0.1:3000")
		}
	}
	behind := k.Upstream != "" || len(k.Routes) > 0 || k.broken("upstream") || k.broken("routes")
	switch {
	case k.Listen != "" && !behind:
		k.wrong("listen", "there is nothing behind it", "give upstream or routes")
	case k.missing("listen", k.Listen) && behind:
		k.doubt("listen", "missing, so nothing is served", `give it, as in listen: ":8080"`)
	case k.missing("listen", k.Listen) && !k.served():
		k.doubt("listen", "nothing is served", "give listen and upstream")
	}
	const most = Duration(24 * time.Hour)
	k.span("upstream_timeouts.connect", k.UpstreamTimeouts.Connect, Duration(time.Millisecond), most)
	k.span("upstream_timeouts.response_header", k.UpstreamTimeouts.ResponseHeader, Duration(time.Millisecond), most)
	k.span("upstream_timeouts.idle", k.UpstreamTimeouts.Idle, Duration(time.Millisecond), most)
	k.span("server.header_timeout", k.Server.HeaderTimeout, Duration(time.Millisecond), most)
	k.span("server.idle_timeout", k.Server.IdleTimeout, Duration(time.Millisecond), most)
	k.span("server.drain", k.Server.Drain, 0, most)
	if size := k.Server.MaxHeader; size < 1<<10 || size > 16<<20 {
		k.wrong("server.max_header", size.String(), "want 1KiB to 16MiB")
	}
}

// service judges the URL of a service.
func (k *checker) service(field, text string) {
	k.url(field, text, wantURL(text, "http", "https", "h2c"))
}

// url notes a URL as an error if there is something to write in its place. A password in it is shown to nobody.
func (k *checker) url(field, text, want string) {
	if u, err := url.Parse(text); err == nil {
		text = u.Redacted()
	} else if strings.Contains(text, "@") {
		text = "the URL"
	}
	k.want(field, text, want)
	if want == "" && text != "" && reaches(text, k.Listen) {
		k.wrong(field, shown(text)+" is where Weir itself listens", "give the service's own address")
	}
}

// served reports whether a front but the proxy is asked for.
func (k *checker) served() bool {
	return cmp.Or(k.ForwardAuth.Listen, k.RLS.Listen, k.ExtAuthz.Listen, k.SPOE.Listen) != ""
}

func (k *checker) client() {
	c := &k.Client
	k.between("client.ipv4_prefix", c.IPv4Prefix, 1, 32)
	k.between("client.ipv6_prefix", c.IPv6Prefix, 1, 128)
	k.want("client.header", c.Header, wantToken(c.Header))
	for i, hop := range c.Path {
		at := fmt.Sprintf("client.path[%d]", i)
		if k.missing(at, hop.Name) && k.missing(at+".name", hop.Name) {
			k.wrong(at+".name", "missing", "give a preset, as in nginx, or any name with cidrs")
		}
		k.want(at+".header", hop.Header, wantToken(hop.Header))
		if hop.Appends != nil {
			k.between(at+".appends", *hop.Appends, 0, 2)
		}
	}
	k.tiers()
	k.readRanges()
	for i, network := range k.ProxyProtocol.From {
		k.wrongIf(wantNetwork(network), fmt.Sprintf("proxy_protocol.from[%d]", i), network)
	}
	for i, network := range k.ExemptAddresses {
		at := fmt.Sprintf("exempt_addresses[%d]", i)
		k.wrongIf(wantNetwork(network), at, network)
		k.everyone(at, network, "exempts everyone")
	}
	for i, a := range k.Allow {
		k.everyone(fmt.Sprintf("allow[%d].cidr", i), a.CIDR, "lets everyone past limits and bans")
	}
}

// everyone warns of a network that holds all addresses.
func (k *checker) everyone(field, network, what string) {
	if p, err := netip.ParsePrefix(network); err == nil && p.Bits() == 0 {
		k.doubt(field, network+" "+what, "name the networks that are yours")
	}
}

// wrongIf notes value, which may be empty, as an error if there is something to write in its place.
func (k *checker) wrongIf(want, field, value string) {
	if want != "" {
		k.wrong(field, shown(value), want)
	}
}

// tiers judges the wider networks of IPv6: each wider than a client's, and not narrower in its limit
// than the networks inside it.
func (k *checker) tiers() {
	widest := slices.Sorted(maps.Keys(k.Client.IPv6Tiers))
	slices.Reverse(widest)
	var inner Multiple
	for _, bits := range widest {
		at := fmt.Sprintf("client.ipv6_tiers.%d", bits)
		times := k.Client.IPv6Tiers[bits]
		switch {
		case bits >= k.Client.IPv6Prefix:
			k.wrong(at, fmt.Sprintf("/%d is not wider than ipv6_prefix, /%d", bits, k.Client.IPv6Prefix), fmt.Sprintf("want less than %d", k.Client.IPv6Prefix))
		case times < inner:
			k.doubt(at, fmt.Sprintf("%s is less than a narrower tier may use", times), fmt.Sprintf("want %s or more", inner))
		}
		inner = max(inner, times)
	}
}

func (k *checker) answers() {
	k.want("cors.allow_origin", k.CORS.AllowOrigin, wantOrigins(k.CORS.AllowOrigin))
	k.url("problem_type_base", k.ProblemTypeBase, wantURL(k.ProblemTypeBase, "https", "http"))
	if k.LegacyReset != "delta" && k.Given("legacy_reset") && k.Headers != "legacy" && k.Headers != "both" {
		k.doubt("legacy_reset", "no answer carries X-RateLimit-Reset", "add headers: legacy or headers: both")
	}
}

func (k *checker) bounds() {
	k.between("store.memory.max_keys", k.Store.Memory.MaxKeys, 1, 1_000_000_000)
	k.between("store.replicas", k.Store.Replicas, 1, 100_000)
	k.between("store.breaker.failures", k.Store.Breaker.Failures, 1, 1_000_000)
	k.span("store.breaker.probe_every", k.Store.Breaker.ProbeEvery, Duration(time.Millisecond), Duration(time.Hour))
	k.span("store.redis.timeout", k.Store.Redis.Timeout, Duration(time.Millisecond), Duration(time.Minute))
	if d := k.Store.Redis.Timeout; d > Duration(time.Second) && k.Store.Redis.URL != "" {
		k.doubt("store.redis.timeout", d.String()+": while Redis is silent, a request may wait for as long", "want 1s or less; 15ms is the default")
	}
	if prefix := k.Store.Redis.Prefix; strings.ContainsAny(prefix, "{}") {
		k.wrong("store.redis.prefix", shown(prefix), "want no braces, which are the hash tag's")
	}
	k.between("log.refusals_per_second", k.Log.RefusalsPerSecond, 0, 1_000_000)
	k.between("metrics.top_clients", k.Metrics.TopClients, 0, 100)
	k.tracing()
}

func (k *checker) tracing() {
	t := &k.Tracing
	k.url("tracing.otlp_endpoint", t.OTLPEndpoint, wantURL(t.OTLPEndpoint, "http", "https"))
	switch {
	case t.Sample < 0 || t.Sample > 1:
		k.wrong("tracing.sample", fmt.Sprint(t.Sample), "want 0 to 1")
	case t.Sample > 0 && k.missing("tracing.otlp_endpoint", t.OTLPEndpoint):
		k.doubt("tracing.sample", "nothing is traced without an endpoint", "add otlp_endpoint: http://127.0.0.1:4318")
	}
}
