package admin

import (
	"net/http"
	"strings"
)

// An access says what a token must allow.
type access uint8

const (
	reads   access = iota // any token
	changes               // the admin token
)

// A route is one operation of the API: what serves it, and what the OpenAPI document says of it.
type route struct {
	method, path string
	access       access
	serve        func(*Server, *call) (any, error)
	summary      string
	query        []parameter
	body, answer any // a value of the type, or nil for none
	status       int // of a good answer; 0: 200
}

// pattern returns the route's path for a ServeMux. The client or network at its end may be written with its slash as it
// is, too.
func (rt *route) pattern() string {
	for _, name := range []string{"{key", "{subject"} {
		if before, ok := strings.CutSuffix(rt.path, name+"}"); ok {
			return before + name + "...}"
		}
	}
	return rt.path
}

// A parameter is one of a route's query.
type parameter struct {
	name, doc string
	enum      []string // what is accepted, the default first; nil: a number or text
	number    *bounds  // nil: text
}

// bounds of a number in a query.
type bounds struct{ least, most, otherwise int }

var (
	limitTop       = parameter{"limit", "at most so many", nil, &bounds{1, 100, 20}}
	limitDecisions = parameter{"limit", "at most so many", nil, &bounds{1, 1000, 100}}
	limitBans      = parameter{"limit", "at most so many", nil, &bounds{1, 10_000, 1000}}
)

// planOf is for a client that is an API key or token.
var planOf = parameter{name: "plan", doc: "the plan that key:ID is on; an API key's is known"}

// routes are all operations, in the order of the document.
func routes() []route {
	return []route{
		{method: "GET", path: "/api/v1/session", serve: (*Server).session, summary: "Who asks, and what he may", answer: Session{}},
		{method: "GET", path: "/api/v1/status", serve: (*Server).status, summary: "How Weir and its store are", answer: Status{}},
		{method: "GET", path: "/api/v1/top", serve: (*Server).top, summary: "Who and what asks most", answer: Top{}, query: []parameter{
			{name: "by", doc: "what is counted", enum: []string{"client", "path", "rule", "shadow"}},
			{name: "window", doc: "how far back", enum: []string{"1m", "1h", "24h"}},
			{name: "sort", doc: "the order", enum: []string{"requests", "refused"}},
			limitTop,
		}},
		{method: "GET", path: "/api/v1/series", serve: (*Server).series, summary: "Each of the last seconds", answer: Series{}, query: []parameter{
			{name: "seconds", doc: "how far back", number: &bounds{1, 600, 600}},
		}},
		{method: "GET", path: "/api/v1/decisions", serve: (*Server).decisions, summary: "Recent decisions", answer: Decisions{}, query: []parameter{
			{name: "only", doc: "which", enum: []string{"all", "refused", "shadow"}},
			{name: "client", doc: "of this client's key alone"},
			{name: "rule", doc: "of this rule alone"},
			limitDecisions,
		}},
		{method: "GET", path: "/api/v1/rules", serve: (*Server).rules, summary: "Rules with use and headroom", answer: Rules{}},
		{method: "GET", path: "/api/v1/shadow", serve: (*Server).shadow, summary: "What shadow limits would have refused", answer: Shadow{}},
		{method: "GET", path: "/api/v1/diagnosis", serve: (*Server).diagnosis, summary: "Whether clients are found as configured", answer: Diagnosis{}},
		{method: "GET", path: "/api/v1/clients/{key}", serve: (*Server).client, summary: "One client: use, counters, recent decisions; of key:ID the counters", answer: ClientView{},
			query: []parameter{planOf}},
		{method: "DELETE", path: "/api/v1/clients/{key}", access: changes, serve: (*Server).resetClient,
			summary: "Reset the counters that are this client's alone", answer: Reset{}, query: []parameter{{name: "reason", doc: "for the audit log"}, planOf}},
		{method: "GET", path: "/api/v1/blocked", serve: (*Server).blocked, summary: "What the firewall blocked, and exclusions to try", answer: Blocked{}, query: []parameter{limitDecisions}},
		{method: "GET", path: "/api/v1/bans", serve: (*Server).bans, summary: "Who is banned, the newest ban first", answer: Bans{}, query: []parameter{limitBans}},
		{method: "POST", path: "/api/v1/bans", access: changes, serve: (*Server).addBan, body: NewBan{}, answer: Ban{}, status: http.StatusCreated,
			summary: "Ban an address, a network or an API key; 409 without force if it holds a proxy, this machine or whoever asks"},
		{method: "DELETE", path: "/api/v1/bans/{subject}", access: changes, serve: (*Server).removeBan,
			summary: "Lift a ban", answer: Lifted{}, query: []parameter{{name: "reason", doc: "for the audit log"}}},
		{method: "GET", path: "/api/v1/keys", serve: (*Server).keys, summary: "API keys, revoked ones among them, in the order of their ids", answer: Keys{}, query: []parameter{
			{name: "owner", doc: "of this owner alone"},
			{name: "plan", doc: "of this plan alone"},
			{name: "after", doc: "id of the last key of the page before"},
			{name: "limit", doc: "at most so many", number: &bounds{1, 1000, 100}},
		}},
		{method: "POST", path: "/api/v1/keys", access: changes, serve: (*Server).createKey, summary: "Create an API key; the key itself is shown this once", body: NewKey{}, answer: KeyWithSecret{}, status: http.StatusCreated},
		{method: "GET", path: "/api/v1/keys/{id}", serve: (*Server).key, summary: "One API key", answer: Key{}},
		{method: "DELETE", path: "/api/v1/keys/{id}", access: changes, serve: (*Server).revokeKey, summary: "Revoke an API key, at once and for ever", answer: Key{},
			query: []parameter{{name: "reason", doc: "for the audit log"}}},
		{method: "POST", path: "/api/v1/keys/{id}/rotate", access: changes, serve: (*Server).rotateKey, summary: "Give an API key a new secret, shown this once; the old one may stay good for a while",
			body: Rotation{}, answer: KeyWithSecret{}},
		{method: "POST", path: "/api/v1/explain", serve: (*Server).explain, summary: "How a request would be treated; counts nothing", body: Question{}, answer: Explanation{}},
		{method: "POST", path: "/api/v1/reload", access: changes, serve: (*Server).reload, summary: "Put the configuration file in force", body: Change{}, answer: Reload{}},
		{method: "GET", path: "/api/v1/config", serve: (*Server).config, summary: "The configuration in force", answer: Config{}},
		{method: "GET", path: "/api/v1/audit", serve: (*Server).audit, summary: "The last changes", answer: Audit{}, query: []parameter{limitDecisions}},
		{method: "POST", path: "/api/v1/verify", access: changes, serve: (*Server).newNonce, summary: "A nonce for one request that is looked at", answer: Nonce{}, status: http.StatusCreated},
		{method: "GET", path: "/api/v1/verify/{nonce}", serve: (*Server).sighting, summary: "How the request with the nonce arrived; 404 until it did", answer: Sighting{}},
		{method: "GET", path: "/api/v1/events", serve: (*Server).events,
			summary: "Server-sent events: point (a Point, each second), refused (a Decision; at most 20 a second), breaker (a BreakerChange)"},
		{method: "GET", path: "/api/v1/openapi.json", serve: (*Server).openAPI, summary: "This document"},
	}
}
