package token

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// An identity is what a good token proves. It is never changed.
type identity struct {
	key, plan string
	scopes    []string
	until     time.Time // when the token is no longer good
}

const (
	maxKey    = 256 // bytes of the claim that is the key; longer ones are refused, not cut
	maxScopes = 100
)

// claims are those of a token whose signature is good (RFC 7519, section 4).
type claims map[string]json.RawMessage

// read returns what the claims prove at now, or nil.
func (v *Verifier) read(payload []byte, now time.Time) *identity {
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return nil
	}
	expires, ok := c.time("exp")
	if !ok || !now.Before(expires.Add(leeway)) {
		return nil
	}
	if c.has("nbf") {
		if begins, ok := c.time("nbf"); !ok || now.Add(leeway).Before(begins) {
			return nil
		}
	}
	if v.o.Issuer != "" && c.text("iss") != v.o.Issuer || v.o.Audience != "" && !slices.Contains(c.list("aud"), v.o.Audience) {
		return nil
	}
	who := &identity{key: c.name(v.o.Claim), scopes: c.scopes(), until: expires.Add(leeway)}
	if who.key == "" || len(who.scopes) > maxScopes {
		return nil
	}
	who.key = KeyPrefix + who.key
	if v.o.PlanClaim == "" || !c.has(v.o.PlanClaim) {
		return who
	}
	if who.plan = c.name(v.o.PlanClaim); who.plan == "" {
		return nil
	}
	return who
}

// has reports whether there is a claim. One that is null says nothing, as some issuers write of whom they know nothing.
func (c claims) has(name string) bool { return c[name] != nil && string(c[name]) != "null" }

// text returns a claim that is text, else nothing.
func (c claims) text(name string) (text string) {
	if json.Unmarshal(c[name], &text) != nil {
		return ""
	}
	return text
}

// name returns a claim that may name a client or a plan: text, or a whole number as it is written. It is nothing
// if it is long, or cannot stand in a header field.
func (c claims) name(claim string) string {
	name := c.text(claim)
	var number json.Number
	if name == "" && json.Unmarshal(c[claim], &number) == nil {
		if _, err := number.Int64(); err == nil {
			name = number.String()
		}
	}
	odd := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(name) > maxKey || strings.ContainsFunc(name, odd) || strings.TrimSpace(name) != name {
		return ""
	}
	return name
}

// list returns a claim that is one text or several.
func (c claims) list(name string) (all []string) {
	if one := c.text(name); one != "" {
		return []string{one}
	}
	if json.Unmarshal(c[name], &all) != nil {
		return nil
	}
	return all
}

// scopes returns those of scope (RFC 8693, section 4.2), which are separated by spaces, and of scp.
func (c claims) scopes() (all []string) {
	for _, claim := range []string{"scope", "scp"} {
		for _, some := range c.list(claim) {
			all = append(all, strings.Fields(some)...)
		}
	}
	return all
}

// time returns a claim that is a NumericDate: seconds since 1970, possibly with a fraction.
func (c claims) time(name string) (time.Time, bool) {
	var seconds float64
	if !c.has(name) || json.Unmarshal(c[name], &seconds) != nil || seconds < 0 {
		return time.Time{}, false
	}
	const latest = 1 << 40 // a time that can still be reckoned with, in some ten thousand years
	whole, part := math.Modf(min(seconds, latest))
	return time.Unix(int64(whole), int64(part*1e9)), true
}
