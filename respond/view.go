package respond

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/weirgate/weir"
)

// A Decision is a weir.Decision as operators and programs read it: in explain, whoami, the decision log
// and the API. Durations are in seconds; what is absent is null.
type Decision struct {
	Client    Client     `json:"client"`
	Rule      *string    `json:"rule"`
	MatchedBy *MatchedBy `json:"matched_by"`
	Limits    []Limit    `json:"limits"`
	WAF       WAF        `json:"waf"`
	Ban       *Ban       `json:"ban"`
	Action    string     `json:"action"`
	Reason    string     `json:"reason"`
	Status    int        `json:"status"`
	Shadow    []string   `json:"shadow"` // shadow limits that would have refused
	Degraded  bool       `json:"degraded"`
	Front     string     `json:"front"`
}

// A Client is who asks, and how that was found.
type Client struct {
	Address  *string    `json:"address"`
	Key      string     `json:"key"`
	Source   string     `json:"source"`
	Prefix   *int       `json:"prefix"`
	APIKey   *string    `json:"api_key"`
	Plan     *string    `json:"plan"`
	Hops     []weir.Hop `json:"hops"`
	Warnings []string   `json:"warnings"`
}

// A Ban is the one that answers the request. It is for operators: an asker is told when it ends, and no more.
type Ban struct {
	Subject string     `json:"subject"`
	Since   time.Time  `json:"since"`
	Until   *time.Time `json:"until"` // null: when it is lifted
	Reason  string     `json:"reason"`
	Author  string     `json:"author"` // name of the admin token, or penalty
}

// ViewBan returns b as it is shown.
func ViewBan(b *weir.Ban) Ban {
	v := Ban{Subject: b.Subject, Since: b.Since.UTC(), Reason: b.Reason, Author: b.Author}
	if !b.Until.IsZero() {
		until := b.Until.UTC()
		v.Until = &until
	}
	return v
}

// MatchedBy is the pattern of the rule; * where any will do.
type MatchedBy struct {
	Host   string `json:"host"`
	Path   string `json:"path"`
	Method string `json:"method"`
}

// A Limit is one limit with the store's answer.
type Limit struct {
	Name       string   `json:"name"`
	Rate       string   `json:"rate"`
	Algorithm  string   `json:"algorithm"`
	Key        string   `json:"key"`
	Mode       string   `json:"mode"`
	Cost       int64    `json:"cost"`
	Limit      int64    `json:"limit"`
	Remaining  int64    `json:"remaining"`
	ResetAfter float64  `json:"reset_after"`
	RetryAfter *float64 `json:"retry_after"` // null if allowed, or if no waiting helps
	Allowed    bool     `json:"allowed"`
}

// WAF is what the firewall found.
type WAF struct {
	Verdict   string   `json:"verdict"`
	Ruleset   *string  `json:"ruleset"`
	Inspected *string  `json:"inspected"`
	Rules     []string `json:"rules"` // ids of those that matched, or the limit that is not kept
	Incident  *string  `json:"incident"`
}

// View returns d as it is shown. It keeps nothing of d's memory but the client's hops.
func View(d *weir.Decision) Decision {
	v := Decision{
		Client:   viewClient(&d.Client),
		Limits:   make([]Limit, 0, len(d.Statuses)),
		WAF:      viewWAF(&d.Inspection),
		Action:   d.Action.String(),
		Reason:   string(d.Reason),
		Status:   d.HTTP,
		Shadow:   append([]string{}, ShadowRefusals(d)...),
		Degraded: d.Degraded,
		Front:    d.Request.Front,
	}
	if d.Ban != nil {
		ban := ViewBan(d.Ban)
		v.Ban = &ban
	}
	if d.Rule != nil {
		v.Rule = &d.Rule.Name
		v.MatchedBy = &MatchedBy{Host: d.Rule.Host, Path: d.Rule.Path, Method: d.Rule.Method}
	}
	for i := range min(len(d.Hits), len(d.Statuses)) {
		v.Limits = append(v.Limits, viewLimit(&d.Hits[i], &d.Statuses[i]))
	}
	return v
}

// MarshalDecision returns d as one JSON object.
func MarshalDecision(d *weir.Decision) ([]byte, error) { return json.Marshal(View(d)) }

// ShadowRefusals returns the names of the shadow limits that would have refused, or nil.
func ShadowRefusals(d *weir.Decision) []string {
	var names []string
	for i := range d.Statuses {
		if s := &d.Statuses[i]; s.Limit != nil && s.Limit.Mode == weir.Shadow && !s.Allowed {
			names = append(names, s.Limit.Name)
		}
	}
	return names
}

func viewClient(c *weir.Client) Client {
	v := Client{
		Key:      c.Key(),
		Source:   c.Source.String(),
		APIKey:   present(c.APIKey),
		Plan:     present(c.Plan),
		Hops:     append([]weir.Hop{}, c.Hops...),
		Warnings: append([]string{}, c.Chain.Codes.Names()...),
	}
	if c.Addr.IsValid() {
		v.Address = present(c.Addr.String())
	}
	if c.Prefix.IsValid() {
		bits := c.Prefix.Bits()
		v.Prefix = &bits
	}
	return v
}

func viewWAF(i *weir.Inspection) WAF {
	v := WAF{Verdict: i.Verdict.String(), Ruleset: present(i.Ruleset), Inspected: present(i.Inspected), Rules: []string{}, Incident: present(i.Incident)}
	if i.Refused != "" {
		v.Rules = append(v.Rules, i.Refused)
	}
	for _, m := range i.Matches {
		if !slices.Contains(v.Rules, m.Rule) {
			v.Rules = append(v.Rules, m.Rule)
		}
	}
	return v
}

func viewLimit(h *weir.Hit, s *weir.Status) Limit {
	v := Limit{
		Name:       h.Limit.Name,
		Rate:       h.Limit.Rate,
		Algorithm:  h.Limit.Algorithm.String(),
		Key:        string(h.Key),
		Mode:       h.Limit.Mode.String(),
		Cost:       h.N,
		Limit:      h.Limit.Max,
		Remaining:  s.Remaining,
		ResetAfter: round(s.ResetAfter),
		Allowed:    s.Allowed,
	}
	if !s.Allowed && s.RetryAfter != weir.Never {
		wait := round(s.RetryAfter)
		v.RetryAfter = &wait
	}
	return v
}

// OwnLimits are what an asker is told of its limits; those that enforce nothing are not shown.
type OwnLimits struct {
	Client OwnClient  `json:"client"`
	Limits []OwnLimit `json:"limits"`
	More   int        `json:"more"` // limits that are not shown, being too many
}

// OwnClient is whom the limits are counted for.
type OwnClient struct {
	Key    string  `json:"key"` // the address, as it is counted
	APIKey *string `json:"api_key"`
	Plan   *string `json:"plan"`
}

// OwnLimit is one limit, as it stands. Durations are in seconds.
type OwnLimit struct {
	Name       string   `json:"name"`
	Rate       string   `json:"rate"`
	Limit      int64    `json:"limit"`
	Remaining  int64    `json:"remaining"`
	ResetAfter float64  `json:"reset_after"`
	RetryAfter *float64 `json:"retry_after"` // null if something is left, or if no waiting helps
}

// ViewOwn returns d, whose hits are looks at the counters of its client, as that is shown to it.
func ViewOwn(d *weir.Decision) OwnLimits {
	c := viewClient(&d.Client)
	v := OwnLimits{Client: OwnClient{c.Key, c.APIKey, c.Plan}, Limits: []OwnLimit{}}
	for i := range d.Hits {
		if l := viewLimit(&d.Hits[i], &d.Statuses[i]); d.Hits[i].Limit.Mode == weir.Enforce {
			v.Limits = append(v.Limits, OwnLimit{l.Name, l.Rate, d.Hits[i].Limit.Capacity(), l.Remaining, l.ResetAfter, l.RetryAfter})
		}
	}
	return v
}

// round returns d in seconds, to the millisecond above.
func round(d time.Duration) float64 {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return float64(ms) / 1000
}

// present returns nil for the empty string, which stands for what is absent.
func present(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
