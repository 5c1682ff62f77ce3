package app

import (
	"fmt"
	"log/slog"

	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/token"
)

// tokens prove JSON Web Tokens. The zero tokens read none.
type tokens struct {
	keys     *token.Keys
	verifier *token.Verifier
	options  token.Options
}

// follow lets t do as c says from now on, and reports whether any tokens are read. Keys from the same place stay,
// and the tokens that were proved stay known unless c says something else of them. It does not fail: keys that
// cannot be fetched may come later.
func (t *tokens) follow(c *config.Config, log *slog.Logger) bool {
	if !c.HasJWT() {
		t.close()
		*t = tokens{}
		return false
	}
	source := token.Source{File: c.JWT.JWKSFile, URL: c.JWT.JWKSURL}
	o := token.Options{
		Issuer: c.JWT.Issuer, Audience: c.JWT.Audience, Claim: c.JWT.Claim, PlanClaim: c.JWT.PlanClaim, Shared: c.Keys.Bearer,
	}
	same := t.keys != nil && t.keys.Source() == source
	if !same {
		t.close()
		t.keys = token.Open(source, log)
	}
	if !same || t.options != o {
		t.verifier, t.options = token.New(t.keys, o), o
	}
	return true
}

// close ends what fetches keys. What is proved by them still is.
func (t *tokens) close() {
	if t.keys != nil {
		t.keys.Close()
	}
}

// verifier returns what proves who asks, as c says, or nil where nobody is asked to. Without known API keys, nobody
// can tell whose one is.
func (a *App) verifier(c *config.Config, known *keyring) engine.Verifier {
	var all engine.Verifiers
	switch {
	case !c.ReadsKeys():
	case known == nil:
		all = append(all, apikey.Unlooked{Settings: keySettings(c)})
	default:
		all = append(all, known.Verifier(keySettings(c)))
	}
	if a.tokens.follow(c, a.log) {
		all = append(all, a.tokens.verifier)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// keySet warns of a file of keys that cannot be used here. It may well be where the configuration is used.
func keySet(c *config.Config) []config.Problem {
	err := token.Check(token.Source{File: c.JWT.JWKSFile})
	if err == nil || c.Broken("jwt.jwks_file") {
		return nil
	}
	what := fmt.Sprintf("%s cannot be used here (%s), and tokens are answered 503 while it cannot", c.JWT.JWKSFile, reason(err))
	return []config.Problem{c.Warn("jwt.jwks_file", what, "name a JSON Web Key Set that can be read where Weir runs")}
}
