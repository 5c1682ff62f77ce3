package token

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirgate/weir"
)

// A good token says who asks, by which plan and for what.
func TestGoodToken(t *testing.T) {
	for alg := range keysOf() {
		i := newIssuer("k1", alg)
		v := verifier(t, options(), i)
		text := i.sign(t, good(map[string]any{"plan": "free", "scope": "read write", "scp": []string{"admin"}}))
		want := weir.Client{APIKey: "jwt:ann", Plan: "free", Scopes: []string{"read", "write", "admin"}, Credential: weir.Verified}
		for range 2 { // proved, and remembered
			if diff := cmp.Diff(want, ask(t, v, noon, "bearer "+text), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", alg, diff)
			}
		}
	}
}

// Each claim is checked, at its edge.
func TestClaims(t *testing.T) {
	i := newIssuer("k1", jose.ES256)
	v := verifier(t, options(), i)
	seconds := func(d time.Duration) int64 { return noon.Add(d).Unix() }
	for _, c := range []struct {
		changes map[string]any
		want    weir.Credential
	}{
		{nil, weir.Verified},
		{map[string]any{"exp": seconds(-29 * time.Second)}, weir.Verified}, // clocks differ
		{map[string]any{"exp": seconds(-30 * time.Second)}, weir.Refuted},
		{map[string]any{"exp": nil}, weir.Refuted},
		{map[string]any{"exp": "soon"}, weir.Refuted},
		{map[string]any{"exp": -1}, weir.Refuted},
		{map[string]any{"exp": 1e300}, weir.Verified},
		{map[string]any{"exp": float64(seconds(0)) + 0.5}, weir.Verified},
		{map[string]any{"nbf": seconds(30 * time.Second)}, weir.Verified},
		{map[string]any{"nbf": seconds(31 * time.Second)}, weir.Refuted},
		{map[string]any{"nbf": "later"}, weir.Refuted},
		{map[string]any{"iss": "https://id.example/"}, weir.Refuted},
		{map[string]any{"iss": nil}, weir.Refuted},
		{map[string]any{"aud": []string{"other", "weir"}}, weir.Verified},
		{map[string]any{"aud": []string{"other"}}, weir.Refuted},
		{map[string]any{"aud": "WEIR"}, weir.Refuted},
		{map[string]any{"aud": nil}, weir.Refuted},
		{map[string]any{"sub": nil}, weir.Refuted},
		{map[string]any{"sub": ""}, weir.Refuted},
		{map[string]any{"sub": 42}, weir.Verified},
		{map[string]any{"sub": 4.2}, weir.Refuted},
		{map[string]any{"sub": true}, weir.Refuted},
		{map[string]any{"sub": []string{"ann"}}, weir.Refuted},
		{map[string]any{"sub": "ann\r\nX-Admin: 1"}, weir.Refuted},
		{map[string]any{"sub": " ann"}, weir.Refuted},
		{map[string]any{"sub": strings.Repeat("a", maxKey)}, weir.Verified},
		{map[string]any{"sub": strings.Repeat("a", maxKey+1)}, weir.Refuted}, // not cut: two would be one
		{map[string]any{"plan": 7}, weir.Verified},
		{map[string]any{"plan": []string{"free"}}, weir.Refuted},
		{map[string]any{"plan": ""}, weir.Refuted},
		{map[string]any{"plan": json.RawMessage("null"), "nbf": json.RawMessage("null")}, weir.Verified}, // says nothing
		{map[string]any{"exp": json.RawMessage("null")}, weir.Refuted},
		{map[string]any{"aud": json.RawMessage("null")}, weir.Refuted},
		{map[string]any{"sub": json.RawMessage("null")}, weir.Refuted},
		{map[string]any{"scope": strings.Repeat("a ", maxScopes)}, weir.Verified},
		{map[string]any{"scope": strings.Repeat("a ", maxScopes+1)}, weir.Refuted},
	} {
		if got := judged(t, v, i.sign(t, good(c.changes))); got != c.want {
			t.Errorf("%v: %s, want %s", c.changes, got, c.want)
		}
	}
	if got := ask(t, v, noon, "Bearer "+i.sign(t, good(map[string]any{"sub": 42}))); got.APIKey != "jwt:42" {
		t.Errorf("a number: %s", got.APIKey)
	}
	if got := judged(t, verifier(t, Options{}, i), i.sign(t, map[string]any{"sub": "ann", "exp": seconds(time.Hour)})); got != weir.Verified {
		t.Errorf("nothing is asked of the token but its end: %s", got)
	}
}

// A remembered token ends when it says.
func TestCacheKeepsNothingBeyondItsEnd(t *testing.T) {
	i := newIssuer("k1", jose.ES256)
	v := verifier(t, options(), i)
	line := "Bearer " + i.sign(t, good(nil))
	end := time.Hour + leeway
	for at, want := range map[time.Duration]weir.Credential{0: weir.Verified, end - 1: weir.Verified, end: weir.Refuted} {
		ask(t, v, noon, line) // it is known
		if got := ask(t, v, noon.Add(at), line).Credential; got != want {
			t.Errorf("after %v: %s, want %s", at, got, want)
		}
	}
}

// KEY-11: a token that was made up proves nothing, whatever it is like.
func TestForgedTokens(t *testing.T) {
	i := newIssuer("k1", jose.RS256)
	v := verifier(t, options(), i)
	real := i.sign(t, good(nil))
	head, rest, _ := strings.Cut(real, ".")
	claims, signature, _ := strings.Cut(rest, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	der, err := x509.MarshalPKIXPublicKey(i.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	payload, _ := base64.RawURLEncoding.DecodeString(claims)
	own := another(t, "k1")
	embedded, err := own.public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"another key":          own.sign(t, good(nil)),
		"none":                 encode(`{"alg":"none","kid":"k1"}`) + "." + claims + ".",
		"None":                 encode(`{"alg":"None","kid":"k1"}`) + "." + claims + "." + signature,
		"the key as a secret":  signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: public}, "k1", payload),
		"the DER as a secret":  signed(t, jose.SigningKey{Algorithm: jose.HS512, Key: append(der, make([]byte, 64)...)}, "k1", payload),
		"another algorithm":    encode(`{"alg":"PS256","kid":"k1"}`) + "." + claims + "." + signature,
		"an elliptic one":      encode(`{"alg":"ES256","kid":"k1"}`) + "." + claims + "." + signature,
		"a key of its own":     encode(`{"alg":"ES256","kid":"k1","jwk":`+string(embedded)+`}`) + "." + own.sign(t, good(nil))[len(head)+1:],
		"other claims":         head + "." + encode(`{"sub":"bob","exp":9999999999,"iss":"https://id.example","aud":"weir"}`) + "." + signature,
		"a critical extension": encode(`{"alg":"RS256","kid":"k1","crit":["x"],"x":1}`) + "." + claims + "." + signature,
		"no signature":         head + "." + claims + ".",
		"two parts":            head + "." + claims,
		"five parts":           real + ".a.b",
		"no claims":            head + ".." + signature,
		"not base64":           head + ".!" + claims + "." + signature,
		"no JSON":              i.signText(t, "hello"),
		"a list":               i.signText(t, "[]"),
		"null":                 i.signText(t, "null"),
		"empty":                "",
		"no token":             "hello",
		"too long":             i.sign(t, good(map[string]any{"x": strings.Repeat("a", longest)})),
	} {
		for range 2 {
			if c := ask(t, v, noon, "Bearer "+text); c.Credential != weir.Refuted || c.APIKey+c.Plan != "" || c.Scopes != nil {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	if n := v.cache.len(); n != 0 {
		t.Errorf("%d forged tokens are remembered", n)
	}
	if got := judged(t, v, real); got != weir.Verified {
		t.Errorf("the real one: %s", got)
	}
}

func (i *issuer) signText(t *testing.T, payload string) string {
	return signed(t, jose.SigningKey{Algorithm: i.alg, Key: i.private}, i.id, []byte(payload))
}

// The token is where it is sent, once: KEY-08.
func TestWhereTokensAreRead(t *testing.T) {
	i := newIssuer("k1", jose.ES256)
	ann, bob := i.sign(t, good(nil)), i.sign(t, good(map[string]any{"sub": "bob"}))
	alone, shared := verifier(t, options(), i), verifier(t, Options{Shared: true}, i)
	for _, c := range []struct {
		lines         []string
		alone, shared weir.Credential
	}{
		{nil, weir.NoCredential, weir.NoCredential},
		{[]string{"Basic YTpi"}, weir.NoCredential, weir.NoCredential},
		{[]string{"Bearer"}, weir.NoCredential, weir.NoCredential},
		{[]string{"Bearers " + ann}, weir.NoCredential, weir.NoCredential},
		{[]string{"Bearer\t" + ann}, weir.Verified, weir.Verified},
		{[]string{"Bearer\ta.b.c"}, weir.Refuted, weir.Refuted}, // a service may read it, as Python's split does
		{[]string{"Bearer\xa0a.b.c"}, weir.Refuted, weir.Refuted},
		{[]string{" Bearer a.b.c"}, weir.Refuted, weir.Refuted},
		{[]string{"Bearer " + ann}, weir.Verified, weir.Verified},
		{[]string{"BEARER   " + ann + " "}, weir.Verified, weir.Verified},
		{[]string{"Bearer " + ann, "bearer " + ann}, weir.Verified, weir.Verified},
		{[]string{"Basic YTpi", "Bearer " + ann}, weir.Verified, weir.Verified},
		{[]string{"Bearer " + ann, "Bearer " + bob}, weir.Ambiguous, weir.Ambiguous},
		{[]string{"Bearer " + ann + ", Bearer " + bob}, weir.Refuted, weir.NoCredential},
		{[]string{"Bearer weir_abc"}, weir.Refuted, weir.NoCredential}, // an API key's form is left to who knows them
		{[]string{"Bearer a.b.c"}, weir.Refuted, weir.Refuted},
	} {
		if got := ask(t, alone, noon, c.lines...).Credential; got != c.alone {
			t.Errorf("%q: %s, want %s", c.lines, got, c.alone)
		}
		if got := ask(t, shared, noon, c.lines...).Credential; got != c.shared {
			t.Errorf("%q beside API keys: %s, want %s", c.lines, got, c.shared)
		}
	}
}

// A set is as good as its good keys.
func TestKeySets(t *testing.T) {
	i := newIssuer("", jose.ES256)
	encryption := newIssuer("enc", jose.RS256).public()
	encryption.Use = "enc"
	private := jose.JSONWebKey{Key: i.private, KeyID: "private"}
	secret := jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "secret"}
	for name, c := range map[string]struct {
		text string
		keys int
	}{
		"one":                {string(document(t, i.public())), 1},
		"a private one":      {string(document(t, private)), 1},
		"others are skipped": {string(document(t, i.public(), secret, encryption, map[string]any{"kty": "new"}, 7)), 1},
		"a secret alone":     {string(document(t, secret)), 0},
		"weak":               {`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, 0},
		"none":               {`{"keys":[]}`, 0},
		"another document":   {`{"issuer":"x"}`, 0},
		"no JSON":            {"<html>", 0},
		"too many":           {`{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`, 0},
	} {
		s, err := parseSet([]byte(c.text))
		if (err == nil) != (c.keys > 0) || s != nil && len(s.keys) != c.keys {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		if s != nil && !s.keys[0].IsPublic() {
			t.Errorf("%s: a private key is kept", name)
		}
	}
}

// Without an id every key that fits is tried; with one, only that.
func TestKeyIDs(t *testing.T) {
	first, second, third := another(t, "a"), another(t, "b"), another(t, "c")
	v := verifier(t, options(), first, second)
	anonymous := &issuer{"", second.alg, second.private}
	misnamed := &issuer{"a", second.alg, second.private}
	nobody := &issuer{"", third.alg, third.private}
	for i, want := range map[*issuer]weir.Credential{second: weir.Verified, anonymous: weir.Verified, misnamed: weir.Refuted, third: weir.Refuted, nobody: weir.Refuted} {
		if got := judged(t, v, i.sign(t, good(nil))); got != want {
			t.Errorf("%q: %s, want %s", i.id, got, want)
		}
	}
}

// However many good tokens there are, so many are remembered.
func TestCacheIsBounded(t *testing.T) {
	c, keys := newCache(), new(set)
	for i := range 2 * mostCached {
		c.add(fmt.Sprint(i), keys, &identity{until: noon.Add(time.Duration(i))}, noon)
	}
	if n := c.len(); n > mostCached {
		t.Errorf("%d tokens, want at most %d", n, mostCached)
	}
	if c.find(fmt.Sprint(2*mostCached-1), keys, noon) == nil {
		t.Error("the last one is not known")
	}
	if c.find(fmt.Sprint(2*mostCached-1), new(set), noon) != nil {
		t.Error("another key set proved it")
	}
}

func (c *cache) len() (n int) {
	for i := range c.shards {
		n += len(c.shards[i].entries)
	}
	return n
}

// A token that is known costs no memory.
func TestKnownTokenAllocatesNothing(t *testing.T) {
	i := newIssuer("k1", jose.RS256)
	v := verifier(t, options(), i)
	d := &weir.Decision{At: noon}
	d.Request.Header = map[string][]string{"Authorization": {"Bearer " + i.sign(t, good(map[string]any{"plan": "free", "scope": "read"}))}}
	v.Verify(t.Context(), d)
	if n := testing.AllocsPerRun(100, func() { v.Verify(t.Context(), d) }); n != 0 || d.Client.Credential != weir.Verified {
		t.Errorf("%v allocations, %s", n, d.Client.Credential)
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA} {
		i := newIssuer("k1", alg)
		v := verifier(b, options(), i)
		d := &weir.Decision{At: noon}
		text := i.sign(b, good(map[string]any{"plan": "free", "scope": "read write"}))
		d.Request.Header = map[string][]string{"Authorization": {"Bearer " + text}}
		v.Verify(b.Context(), d)
		b.Run(string(alg)+"/known", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Verify(b.Context(), d)
			}
		})
		head := text[:strings.LastIndex(text, ".")+1]
		other := i.sign(b, good(map[string]any{"sub": "bob"}))
		d = &weir.Decision{At: noon}
		d.Request.Header = map[string][]string{"Authorization": {"Bearer " + head + other[strings.LastIndex(other, ".")+1:]}}
		b.Run(string(alg)+"/forged", func(b *testing.B) {
			for b.Loop() {
				v.Verify(b.Context(), d)
			}
		})
	}
}

// Whatever comes, it proves nothing unless it was signed, and nothing breaks.
func FuzzVerify(f *testing.F) {
	i := newIssuer("k1", jose.ES256)
	v := verifier(f, options(), i)
	real := i.sign(f, good(nil))
	f.Add("Bearer " + real)
	f.Add("Bearer a.b.c")
	f.Add("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.")
	f.Fuzz(func(t *testing.T, line string) {
		if c := ask(t, v, noon, line); c.Credential == weir.Verified && !strings.Contains(line, real[:strings.LastIndex(real, ".")]) {
			t.Errorf("%q proves %s", line, c.APIKey)
		}
	})
}

// Whatever a key set is, what is taken from it can be used.
func FuzzParseSet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSet(text)
		if err != nil {
			return
		}
		for _, k := range s.keys {
			if !k.IsPublic() || !usable(k.Key) {
				t.Errorf("%v", k)
			}
		}
	})
}
