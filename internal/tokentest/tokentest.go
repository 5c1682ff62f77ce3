// Package tokentest issues JSON Web Tokens for tests.
package tokentest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// An Issuer signs by one key, with ES256.
type Issuer struct {
	tb  testing.TB
	id  string
	key *ecdsa.PrivateKey
}

// New returns an issuer whose key has that id.
func New(tb testing.TB, id string) *Issuer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return &Issuer{tb, id, key}
}

// Set returns a key set with the keys of all issuers.
func Set(tb testing.TB, all ...*Issuer) []byte {
	tb.Helper()
	var set jose.JSONWebKeySet
	for _, i := range all {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: i.key.Public(), KeyID: i.id, Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// Write makes the keys of all issuers the set in a file.
func Write(tb testing.TB, file string, all ...*Issuer) {
	tb.Helper()
	if err := os.WriteFile(file, Set(tb, all...), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Token returns a token with those claims.
func (i *Issuer) Token(claims map[string]any) string {
	i.tb.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		i.tb.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, new(jose.SignerOptions).WithHeader("kid", i.id))
	if err != nil {
		i.tb.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		i.tb.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.tb.Fatal(err)
	}
	return text
}
