package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is when tests decide.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// An issuer signs tokens by one key.
type issuer struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

// keysOf are made once, since RSA keys take their time.
var keysOf = sync.OnceValue(func() map[jose.SignatureAlgorithm]crypto.Signer {
	must := func(k crypto.Signer, err error) crypto.Signer {
		if err != nil {
			panic(err)
		}
		return k
	}
	elliptical := func(c elliptic.Curve) crypto.Signer { k, err := ecdsa.GenerateKey(c, rand.Reader); return must(k, err) }
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	all := map[jose.SignatureAlgorithm]crypto.Signer{
		jose.ES256: elliptical(elliptic.P256()), jose.ES384: elliptical(elliptic.P384()), jose.ES512: elliptical(elliptic.P521()),
		jose.EdDSA: must(ed, err),
	}
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512} {
		all[alg] = must(k, err)
	}
	return all
})

func newIssuer(id string, alg jose.SignatureAlgorithm) *issuer {
	return &issuer{id, alg, keysOf()[alg]}
}

// another is a new issuer whose key nobody knows.
func another(t testing.TB, id string) *issuer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{id, jose.ES256, k}
}

// public is the issuer's key as a set shows it.
func (i *issuer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: i.private.Public(), KeyID: i.id, Use: "sig"}
}

// sign returns a token with those claims.
func (i *issuer) sign(t testing.TB, c map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, jose.SigningKey{Algorithm: i.alg, Key: i.private}, i.id, payload)
}

func signed(t testing.TB, key jose.SigningKey, id string, payload []byte) string {
	t.Helper()
	o := new(jose.SignerOptions).WithType("JWT")
	if id != "" {
		o = o.WithHeader("kid", id)
	}
	s, err := jose.NewSigner(key, o)
	if err != nil {
		t.Fatal(err)
	}
	object, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// good are the claims of a good token, with some changed; nil takes one away.
func good(changes map[string]any) map[string]any {
	c := map[string]any{"iss": "https://id.example", "aud": "weir", "sub": "ann", "exp": noon.Add(time.Hour).Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// options are what good tokens keep.
func options() Options {
	return Options{Issuer: "https://id.example", Audience: "weir", Claim: "sub", PlanClaim: "plan"}
}

// document is a key set of those keys.
func document(t testing.TB, keys ...any) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fileOf writes the key set of issuers.
func fileOf(t testing.TB, issuers ...*issuer) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys.json")
	write(t, name, issuers...)
	return name
}

func write(t testing.TB, name string, issuers ...*issuer) {
	t.Helper()
	var keys []any
	for _, i := range issuers {
		keys = append(keys, i.public())
	}
	if err := os.WriteFile(name, document(t, keys...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// verifier knows the keys of issuers.
func verifier(t testing.TB, o Options, issuers ...*issuer) *Verifier {
	t.Helper()
	keys := Open(Source{File: fileOf(t, issuers...)}, nil)
	t.Cleanup(keys.Close)
	return New(keys, o)
}

// ask has a request with those Authorization lines judged at a moment.
func ask(t testing.TB, v *Verifier, at time.Time, lines ...string) weir.Client {
	d := &weir.Decision{At: at, Request: weir.Request{Header: http.Header{"Authorization": lines}}}
	v.Verify(t.Context(), d)
	return d.Client
}

// judged is the credential of a request with one token.
func judged(t testing.TB, v *Verifier, token string) weir.Credential {
	return ask(t, v, noon, "Bearer "+token).Credential
}
