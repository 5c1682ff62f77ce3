package engine

import (
	"context"

	"github.com/weirgate/weir"
)

// Verifiers ask several, each of which knows one kind of key or token. A request that bears two kinds is
// Ambiguous, whatever each of them is.
type Verifiers []Verifier

// A proof is what a verifier found.
type proof struct {
	key, plan  string
	scopes     []string
	credential weir.Credential
}

// Verify implements Verifier.
func (v Verifiers) Verify(ctx context.Context, d *weir.Decision) {
	var found proof
	for _, one := range v {
		one.Verify(ctx, d)
		next := take(&d.Client)
		switch {
		case next.credential == weir.NoCredential:
		case found.credential == weir.NoCredential:
			found = next
		default:
			found = proof{credential: weir.Ambiguous}
		}
	}
	c := &d.Client
	c.APIKey, c.Plan, c.Scopes, c.Credential = found.key, found.plan, found.scopes, found.credential
}

// Peek implements Trackless.
func (v Verifiers) Peek(ctx context.Context, d *weir.Decision) {
	quiet := make(Verifiers, len(v))
	for i, one := range v {
		quiet[i] = peekingVerifier(one)
	}
	quiet.Verify(ctx, d)
}

// take takes out of c what a verifier wrote there.
func take(c *weir.Client) proof {
	p := proof{c.APIKey, c.Plan, c.Scopes, c.Credential}
	c.APIKey, c.Plan, c.Scopes, c.Credential = "", "", nil, weir.NoCredential
	return p
}
