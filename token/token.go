// Package token proves JSON Web Tokens (RFC 7519) that are sent as Authorization: Bearer. Only a verified
// token says who asks; of any other nothing is believed. Signatures are checked by go-jose, against a key set
// (RFC 7517) from a file or a URL that is looked at again in the background.
package token

import (
	"context"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weirgate/weir"
)

// Options say which tokens are good.
type Options struct {
	Issuer    string // required iss; empty: any
	Audience  string // required among aud; empty: any
	Claim     string // that tells clients apart; empty: sub
	PlanClaim string // that names the plan; empty: none
	// Shared says that API keys are sent as Authorization: Bearer, too. Then what has not the form of a token is
	// left to whoever knows them; otherwise it is a token that is wrong.
	Shared bool
}

// KeyPrefix begins the id of every client that a token proves. No API key's id begins with it.
const KeyPrefix = "jwt:"

const (
	longest = 8 << 10          // bytes of a token that is looked at; longer ones are wrong
	leeway  = 30 * time.Second // by which clocks may differ
)

// A Verifier proves tokens. It is safe for concurrent use.
type Verifier struct {
	keys  *Keys
	o     Options
	cache *cache
}

// New returns a verifier of tokens that are signed by keys, which stay the caller's.
func New(keys *Keys, o Options) *Verifier {
	if o.Claim == "" {
		o.Claim = "sub"
	}
	return &Verifier{keys: keys, o: o, cache: newCache()}
}

// Verify fills in what the token of d.Request proves: Refuted is one that is not good at d.At, Ambiguous are two
// that differ, and Unverifiable is one for which there is no key set. A token that was proved before costs no
// memory. ctx bounds the wait for a key that is not known yet, as does [Budget].
func (v *Verifier) Verify(ctx context.Context, d *weir.Decision) {
	text, c := v.bearer(d.Request.Header["Authorization"])
	if c == weir.NoCredential || c == weir.Ambiguous {
		d.Client.Credential = c
		return
	}
	keys := v.keys.current.Load()
	who := v.cache.find(text, keys, d.At)
	if who == nil {
		if who, c = v.prove(ctx, text, d.At); c != weir.Verified {
			d.Client.Credential = c
			return
		}
	}
	d.Client.Credential = weir.Verified
	d.Client.APIKey, d.Client.Plan, d.Client.Scopes = who.key, who.plan, who.scopes
}

// bearer returns the one token among lines. The credential is Refuted until it is proved.
func (v *Verifier) bearer(lines []string) (text string, c weir.Credential) {
	const scheme = "bearer "
	for _, line := range lines {
		if len(line) < len(scheme) || !strings.EqualFold(line[:len(scheme)], scheme) {
			continue
		}
		next := strings.TrimSpace(line[len(scheme):])
		switch {
		case v.o.Shared && strings.Count(next, ".") != 2:
		case c == weir.NoCredential:
			text, c = next, weir.Refuted
		case next != text:
			return "", weir.Ambiguous
		}
	}
	return text, c
}

// prove checks a token that the cache does not know.
func (v *Verifier) prove(ctx context.Context, text string, now time.Time) (*identity, weir.Credential) {
	if len(text) > longest {
		return nil, weir.Refuted
	}
	signed, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, weir.Refuted
	}
	header := &signed.Signatures[0].Protected
	keys, set, c := v.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if c != weir.Verified {
		return nil, c
	}
	for _, key := range keys {
		payload, err := signed.Verify(key)
		if err != nil {
			continue
		}
		who := v.read(payload, now)
		if who == nil {
			return nil, weir.Refuted
		}
		v.cache.add(text, set, who, now)
		return who, weir.Verified
	}
	return nil, weir.Refuted
}
