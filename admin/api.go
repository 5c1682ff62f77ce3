package admin

import (
	"time"

	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/respond"
)

// The types below are the bodies of the API. The OpenAPI document is made of them and of the table of
// routes; the tag doc is its description of a field. Times are RFC 3339, durations seconds.

// A Session says who asks.
type Session struct {
	Token    string `json:"token" doc:"admin, read, or loopback where no token is configured"`
	Writes   bool   `json:"writes" doc:"whether this token may change anything"`
	Version  string `json:"version" doc:"of the program"`
	Bans     bool   `json:"bans" doc:"whether there can be bans; if not, /api/v1/bans answers 501"`
	Keys     bool   `json:"keys" doc:"whether requests are asked for API keys; if not, /api/v1/keys answers 501"`
	Blocked  bool   `json:"blocked" doc:"whether requests are inspected; if not, /api/v1/blocked answers 501"`
	ReadOnly string `json:"read_only" doc:"why nothing may be changed; empty if it may"`
}

// A Top is who or what asks most.
type Top struct {
	By       string     `json:"by" doc:"client, path, rule, or shadow: the clients that a shadow limit would have refused"`
	Window   string     `json:"window" doc:"1m, 1h or 24h"`
	From     time.Time  `json:"from" doc:"what is counted happened since then"`
	To       time.Time  `json:"to"`
	Step     float64    `json:"step" doc:"seconds that one number of a sparkline stands for"`
	Requests uint64     `json:"requests" doc:"of all, exactly"`
	Refused  uint64     `json:"refused" doc:"of all, exactly"`
	Entries  []TopEntry `json:"entries" doc:"the first by requests (or refusals), at most as many as were asked for"`
}

// A TopEntry is one of those who ask most.
type TopEntry struct {
	Rank     int      `json:"rank" doc:"from 1"`
	Key      string   `json:"key" doc:"the client as it is counted, the folded path, or the rule's name"`
	Source   string   `json:"source" doc:"how the client was found last; empty for paths and rules"`
	Requests uint64   `json:"requests" doc:"at least so many"`
	Error    uint64   `json:"error" doc:"and at most so many more: the bound of the sketch"`
	Refused  uint64   `json:"refused" doc:"of those requests, at least"`
	Share    float64  `json:"share" doc:"of all requests, from 0 to 1"`
	Spark    []uint64 `json:"spark" doc:"requests over the window, the oldest first"`
}

// A Series is what happened in each of the last seconds.
type Series struct {
	From   time.Time `json:"from" doc:"the second of the first point"`
	Step   float64   `json:"step" doc:"seconds from one point to the next"`
	Points []Point   `json:"points" doc:"the oldest first, without gaps"`
}

// A Point is what happened in one second.
type Point = journal.Point

// Decisions are the last decisions.
type Decisions struct {
	Decisions []Decision `json:"decisions" doc:"the newest first"`
}

// A Decision is one of the last decisions.
type Decision = journal.Entry

// Rules are the rules in force, with their use.
type Rules struct {
	Requests uint64 `json:"requests" doc:"since the start"`
	Refused  uint64 `json:"refused" doc:"since the start"`
	Rules    []Rule `json:"rules" doc:"in the order of the file, the default last"`
}

// A Rule is one rule in force.
type Rule struct {
	Name     string  `json:"name"`
	Host     string  `json:"host" doc:"* where any will do"`
	Path     string  `json:"path"`
	Method   string  `json:"method"`
	Exempt   bool    `json:"exempt"`
	Mode     string  `json:"mode" doc:"enforce, shadow or off"`
	Action   string  `json:"action" doc:"what follows a refusal: reject, drop, tarpit or tag"`
	Requests uint64  `json:"requests" doc:"since the start"`
	Refused  uint64  `json:"refused" doc:"since the start"`
	Shadow   uint64  `json:"shadow" doc:"requests that a shadow limit would have refused, since the start"`
	Limits   []Limit `json:"limits"`
}

// A Limit is one limit of a rule, with what its busiest client has left.
type Limit struct {
	Name      string    `json:"name"`
	Rate      string    `json:"rate"`
	Algorithm string    `json:"algorithm"`
	Mode      string    `json:"mode"`
	Per       []string  `json:"per" doc:"what it is counted per; empty: one count for all"`
	Global    bool      `json:"global" doc:"it holds for every request that is not exempt"`
	Plan      string    `json:"plan" doc:"whose keys alone it counts; empty: no matter"`
	Limit     int64     `json:"limit"`
	Cost      int64     `json:"cost" doc:"of a request"`
	Headroom  *Headroom `json:"headroom" doc:"of the busiest client among the recent decisions; null where the limit bound none of them"`
}

// Headroom is what a limit's busiest client had left.
type Headroom struct {
	Remaining int64     `json:"remaining" doc:"requests at once"`
	Client    string    `json:"client"`
	Time      time.Time `json:"time"`
	Decisions int       `json:"decisions" doc:"recent decisions that this limit bound"`
	Refused   int       `json:"refused" doc:"recent decisions that it refused"`
}

// Shadow is what shadow limits would have refused.
type Shadow struct {
	Limits  []ShadowLimit `json:"limits" doc:"every shadow limit in force"`
	Clients []TopEntry    `json:"clients" doc:"who would have been refused within the last hour, the most hurt first"`
}

// A ShadowLimit is a limit on trial.
type ShadowLimit struct {
	Rule    string   `json:"rule" doc:"empty for a limit for every request"`
	Name    string   `json:"name"`
	Rate    string   `json:"rate"`
	Recent  int      `json:"recent" doc:"recent decisions that it would have refused, of the last 1000"`
	Clients []string `json:"clients" doc:"whose requests those were, at most 20"`
}

// A ClientView is what is known of one client.
type ClientView struct {
	Key       string        `json:"key"`
	Windows   []ClientUse   `json:"windows"`
	Limits    []ClientLimit `json:"limits" doc:"the counters that are this client's alone, looked at without counting"`
	Decisions []Decision    `json:"decisions" doc:"its recent decisions, the newest first"`
}

// A ClientUse is what a client did in a window.
type ClientUse struct {
	Window   string `json:"window"`
	Requests uint64 `json:"requests" doc:"at least"`
	Error    uint64 `json:"error" doc:"at most so many more"`
	Refused  uint64 `json:"refused" doc:"at least"`
}

// A ClientLimit is a counter of a client's.
type ClientLimit struct {
	Rule string `json:"rule"`
	respond.Limit
}

// A Reset is what was forgotten.
type Reset struct {
	Key      string `json:"key"`
	Counters int    `json:"counters" doc:"that now stand as if they had never been used"`
}

// A Question is a request that is explained and not counted.
type Question struct {
	Method  string      `json:"method,omitempty" doc:"GET if empty"`
	URL     string      `json:"url" doc:"http://HOST/PATH or https://HOST/PATH"`
	Headers []FieldLine `json:"headers,omitempty" doc:"in the order they are sent, at most 100"`
	Remote  string      `json:"remote,omitempty" doc:"the address that connects to Weir, or @ for a unix socket; 192.0.2.1 if empty"`
}

// A FieldLine is one header line.
type FieldLine struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// An Explanation is the decision about a question, and why.
type Explanation struct {
	respond.Decision
	Why   string `json:"why" doc:"why the rule won over the others"`
	Notes []Note `json:"notes" doc:"what is odd about how the client was found"`
}

// A Note is one such oddity.
type Note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// A Change is the body of a request that changes something.
type Change struct {
	Reason string `json:"reason,omitempty" doc:"for the audit log, at most 200 bytes"`
}

// A Reload is what a reload did.
type Reload struct {
	Changed      []string `json:"changed" doc:"settings that differ from before"`
	NeedsRestart []string `json:"needs_restart" doc:"settings that take effect at the next start only"`
	ConfigHash   string   `json:"config_hash"`
}

// A Config is the configuration in force.
type Config struct {
	File string `json:"file" doc:"where it was read; defaults if there is none"`
	Hash string `json:"config_hash"`
	YAML string `json:"yaml" doc:"every setting with its value or default, secrets blanked"`
}

// A Status is how Weir itself is.
type Status struct {
	Version    string       `json:"version"`
	Started    time.Time    `json:"started"`
	ConfigHash string       `json:"config_hash"`
	Ready      string       `json:"not_ready" doc:"why no requests should be sent here; empty if they should"`
	Fronts     []FrontPlace `json:"fronts"`
	Requests   uint64       `json:"requests" doc:"since the start"`
	Refused    uint64       `json:"refused" doc:"since the start"`
	Config     InUse        `json:"config"`
	InFlight   int          `json:"in_flight" doc:"requests at the upstream"`
	Held       int          `json:"held" doc:"askers in the tarpit"`
	Store      StoreHealth  `json:"store"`
	Firewall   []Finding    `json:"firewall" doc:"why requests passed it uninspected within the last five minutes; empty if none did"`
}

// InUse is the configuration in force, and what became of the attempts to replace it.
type InUse struct {
	File         string    `json:"file" doc:"where it was read; defaults if there is none"`
	Since        time.Time `json:"since" doc:"when it was put in force"`
	NeedsRestart []string  `json:"needs_restart" doc:"settings of it that take effect at the next start only"`
	Refused      *Refused  `json:"refused" doc:"the last reload, if it was refused; else null"`
}

// Refused is a reload that was refused: the configuration before stays in force.
type Refused struct {
	Time   time.Time `json:"time"`
	Errors []string  `json:"errors" doc:"what is wrong, each with its place"`
}

// A FrontPlace is where a front listens.
type FrontPlace struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// StoreHealth is how the store is, and was.
type StoreHealth struct {
	Backend   string          `json:"backend" doc:"memory or redis"`
	Open      bool            `json:"breaker_open" doc:"the shared store is left alone because it failed"`
	Fallbacks uint64          `json:"fallbacks" doc:"hits that it did not answer, since the start"`
	Keys      int             `json:"memory_keys" doc:"counters in this process's memory"`
	Evictions uint64          `json:"memory_evictions" doc:"counters forgotten for want of room, since the start"`
	Findings  []string        `json:"findings" doc:"what is to be changed about the shared store"`
	History   []BreakerChange `json:"history" doc:"when the breaker opened and closed, the newest first, at most 100"`
}

// A BreakerChange is one opening or closing of the breaker.
type BreakerChange = journal.BreakerChange

// A Diagnosis is whether the picture of the proxies holds.
type Diagnosis struct {
	Strategy string    `json:"strategy" doc:"path, trusted_proxies, from_right or header; empty: the client is the peer"`
	Picture  string    `json:"picture" doc:"what is expected to arrive, in one line"`
	Traps    []string  `json:"traps" doc:"what is worth knowing of the presets in use"`
	Findings []Finding `json:"findings" doc:"what contradicts the picture, each with its cure; empty if nothing does"`
	Entries  []uint64  `json:"entries" doc:"requests since the start by entries of their chain: 0 to 6, then 7 and more"`
	Sources  []Count   `json:"sources" doc:"requests since the start by how their client was found"`
}

// A Finding is one thing that is wrong.
type Finding = journal.Finding

// A Count is how often something was.
type Count struct {
	Name string `json:"name"`
	N    uint64 `json:"n"`
}

// Audit is the end of the audit log.
type Audit struct {
	Lines []AuditLine `json:"lines" doc:"the newest first"`
}

// An AuditLine is one change.
type AuditLine struct {
	Time   time.Time `json:"time"`
	Who    string    `json:"who" doc:"admin, or loopback where no token is configured; file or signal for a reload that nobody asked for here"`
	Peer   string    `json:"peer" doc:"the address that asked; empty if none did"`
	What   string    `json:"what" doc:"the change, as in reload or client.reset"`
	Target string    `json:"target" doc:"what was changed"`
	Before any       `json:"before"`
	After  any       `json:"after"`
	Reason string    `json:"reason"`
	Error  string    `json:"error,omitempty" doc:"why nothing was changed"`
}

// A Nonce lets one request be looked at.
type Nonce struct {
	Nonce   string  `json:"nonce" doc:"for one request"`
	Header  string  `json:"header" doc:"the header field to send it in"`
	Expires float64 `json:"expires" doc:"seconds from now"`
}

// A Sighting is how the request with the nonce arrived.
type Sighting struct {
	Time     time.Time      `json:"time"`
	Front    string         `json:"front"`
	Peer     string         `json:"peer" doc:"who connected; unix at a unix socket"`
	Trusted  bool           `json:"trusted" doc:"whether the header fields of that peer are believed"`
	Strategy string         `json:"strategy" doc:"as in the diagnosis"`
	Client   respond.Client `json:"client" doc:"what was resolved"`
	Headers  []FieldLine    `json:"headers" doc:"the header fields that may name a client or a connection, as they arrived"`
}

// Keys are a page of API keys.
type Keys struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next" doc:"for after, to get the next page; empty: this is the last"`
}

// A Key is an API key without its secret, which nobody keeps.
type Key struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Owner    string     `json:"owner"`
	Plan     string     `json:"plan" doc:"empty: none"`
	Scopes   []string   `json:"scopes"`
	State    string     `json:"state" doc:"live, expired or revoked"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires" doc:"null: never"`
	Revoked  *time.Time `json:"revoked"`
	LastUsed *time.Time `json:"last_used" doc:"at most a minute late"`
	OldUntil *time.Time `json:"old_until" doc:"until when the secret before the last rotation is good"`
}

// A KeyWithSecret is a key at the one moment when its secret is known.
type KeyWithSecret struct {
	Key
	Secret string `json:"secret" doc:"what requests are to bear; it is shown this once"`
}

// A NewKey is what an API key is to be.
type NewKey struct {
	Name    string    `json:"name" doc:"for people, at most 128 bytes"`
	Owner   string    `json:"owner,omitempty" doc:"whose it is"`
	Plan    string    `json:"plan,omitempty" doc:"a plan of the configuration"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expires time.Time `json:"expires,omitzero" doc:"left out: never"`
	Reason  string    `json:"reason,omitempty" doc:"for the audit log"`
}

// A Rotation is how a key gets a new secret.
type Rotation struct {
	Overlap float64 `json:"overlap,omitempty" doc:"seconds for which the old secret stays good, at most 90 days"`
	Reason  string  `json:"reason,omitempty" doc:"for the audit log"`
}

// Blocked is what the firewall found.
type Blocked struct {
	Blocked   []BlockedRequest `json:"blocked" doc:"requests that it blocked, or would have under detect; the newest first"`
	Insights  []BlockedRequest `json:"insights" doc:"requests that passed, and in which the core rules at paranoia 2 find an attack: of one request in 100, at most one a second; the newest first"`
	Proposals []Proposal       `json:"proposals" doc:"exclusions that would have let some of all blocked requests pass, those that help most first; at most 20"`
}

// A BlockedRequest is one request. Nothing of headers or bodies is kept but the matched fragment.
type BlockedRequest struct {
	Incident  string    `json:"incident"`
	Time      time.Time `json:"time"`
	Verdict   string    `json:"verdict" doc:"block; detect: it was only reported; insight: it passed"`
	Client    string    `json:"client" doc:"as log.addresses says"`
	Method    string    `json:"method"`
	Path      string    `json:"path" doc:"the template"`
	Policy    string    `json:"policy" doc:"the rule of the configuration"`
	Rule      string    `json:"rule" doc:"id of the firewall's rule that scored most, or the bound that was not kept"`
	Class     string    `json:"class"`
	Location  string    `json:"location" doc:"where it matched, as in query.q"`
	Fragment  string    `json:"fragment" doc:"at most 64 bytes, masked"`
	Score     int       `json:"score" doc:"of all matches"`
	Matches   int       `json:"matches" doc:"how many there were, at most 32"`
	Released  bool      `json:"released" doc:"it would have passed by the exclusions that are on trial"`
	Exclusion string    `json:"exclusion" doc:"the configuration lines that let exactly this pass, on trial; empty if there are none"`
}

// A Proposal is what to exclude, on trial at first: as a rule one exclusion, and where several rules matched in one
// request as many as it takes.
type Proposal struct {
	Excludes  []Exclude `json:"excludes"`
	Matched   int       `json:"matched" doc:"blocked requests that it is about"`
	Released  int       `json:"released" doc:"those of them that would have passed by it"`
	Clients   int       `json:"clients" doc:"whose they were, as log.addresses tells them apart: a single one may be an attacker"`
	Trial     bool      `json:"trial" doc:"it is in the configuration with shadow: true; without that it is in force"`
	Exclusion string    `json:"exclusion" doc:"the configuration lines; the reason is yours to fill in"`
}

// An Exclude is one rule of the firewall's on one path in one parameter.
type Exclude struct {
	Rule      string `json:"rule"`
	Path      string `json:"path"`
	Parameter string `json:"parameter" doc:"empty: any"`
}

// Bans are who is kept out.
type Bans struct {
	Total int   `json:"total" doc:"how many there are"`
	Bans  []Ban `json:"bans" doc:"the newest first, at most as many as were asked for"`
}

// A Ban is one of them.
type Ban = respond.Ban

// A NewBan is the body of a request that bans.
type NewBan struct {
	Subject string `json:"subject" doc:"an address, a network as in 203.0.113.0/24, or key:ID of an API key"`
	For     string `json:"for,omitempty" doc:"how long, as in 10m or 24h; empty: until it is lifted"`
	Reason  string `json:"reason,omitempty" doc:"for operators, at most 200 bytes; the banned are not told"`
	Force   bool   `json:"force,omitempty" doc:"ban also a trusted proxy, loopback, the address that asks, or whom allow names"`
}

// Lifted is a ban that was lifted.
type Lifted struct {
	Ban     Ban    `json:"ban"`
	StillBy string `json:"still_by" doc:"the wider ban that still holds for the subject; empty if none does"`
}

// A Problem is why a request was not answered (RFC 9457).
type Problem struct {
	Type   string   `json:"type" doc:"about:blank"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Code   string   `json:"code" doc:"for programs: unauthorized, read_only, cross_site, not_found, bad_request, conflict, protected, not_configured, too_large, busy, refused, not_in_this_version, failed"`
	Errors []string `json:"errors,omitempty" doc:"the problems of a configuration, each with its place"`
}
