package token

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are those that a token may be signed by: with a key that signs and another one that can be shown to
// everybody. A shared secret (HS256) is none, nor is no signature at all.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

const (
	maxKeys = 100 // of a set
	maxTry  = 4   // keys that one signature is tried with
	minRSA  = 2048
	maxRSA  = 8192 // bits; larger ones would cost too much
)

// A set is the keys of a document that can be used. It is never changed.
type set struct {
	text []byte // the document
	keys []jose.JSONWebKey
}

// errNoKeys is why a document is not used whose keys are all of no use.
var errNoKeys = errors.New("no public key for signatures in it")

// parseSet reads a key set, and keeps text. Keys that cannot be used are passed over (RFC 7517, section 5): of kinds that are not
// known, for encryption, secret ones, weak ones.
func parseSet(text []byte) (*set, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("no key set: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys: want at most %d", len(document.Keys), maxKeys)
	}
	s := &set{text: text}
	for _, raw := range document.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) != nil || !k.Valid() || k.Use != "" && k.Use != "sig" {
			continue
		}
		if k = k.Public(); usable(k.Key) {
			s.keys = append(s.keys, k)
		}
	}
	if len(s.keys) == 0 {
		return nil, errNoKeys
	}
	return s, nil
}

func usable(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// fits reports whether key is of the kind that alg signs by (RFC 7518, section 3; RFC 8037).
func fits(key any, alg jose.SignatureAlgorithm) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return alg[0] == 'R' || alg[0] == 'P'
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return alg == jose.ES256
		case elliptic.P384():
			return alg == jose.ES384
		case elliptic.P521():
			return alg == jose.ES512
		}
	case ed25519.PublicKey:
		return alg == jose.EdDSA
	}
	return false
}

// find returns the keys that may have made a signature by alg, and whether one has that id. A signature without an
// id may be by any.
func (s *set) find(id string, alg jose.SignatureAlgorithm) (keys []any, known bool) {
	for i := range s.keys {
		k := &s.keys[i]
		if id != "" && k.KeyID != id {
			continue
		}
		known = true
		if (k.Algorithm == "" || k.Algorithm == string(alg)) && fits(k.Key, alg) && len(keys) < maxTry {
			keys = append(keys, k.Key)
		}
	}
	return keys, known
}
