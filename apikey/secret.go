package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"regexp"
	"strings"

	"github.com/weirgate/weir/internal/credential"
)

// A key is
//
//	weir_ID_SECRETCHECK
//
// The id names it wherever it is shown. The secret has 256 bits. The check is the CRC-32 of all before it,
// so that a typing error, or what only looks like a key, is known without looking it up.
const (
	idLength     = 12
	secretLength = 43 // 62^43 > 2^256
	checkLength  = 6  // 62^6 > 2^32
	length       = len(credential.Prefix) + idLength + 1 + secretLength + checkLength
)

// Pattern is a regular expression that finds keys in text, for scanners.
const Pattern = `\bweir_[0-9a-z]{12}_[0-9A-Za-z]{49}\b`

const (
	lower    = "0123456789abcdefghijklmnopqrstuvwxyz"
	alphabet = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// newSecret returns a new key and its id.
func newSecret() (id, secret string) {
	id = randomText(idLength, lower)
	secret = credential.Prefix + id + "_" + randomText(secretLength, alphabet)
	return id, secret + check(secret)
}

// renewed returns a new key with an id that there is.
func renewed(id string) string {
	secret := credential.Prefix + id + "_" + randomText(secretLength, alphabet)
	return secret + check(secret)
}

// randomText returns n letters of an alphabet of at most 64, each as likely as any other.
func randomText(n int, from string) string {
	var text strings.Builder
	for block := make([]byte, n); text.Len() < n; {
		rand.Read(block) // never fails
		for _, b := range block {
			if i := int(b & 63); i < len(from) && text.Len() < n {
				text.WriteByte(from[i])
			}
		}
	}
	return text.String()
}

// check returns the check of what stands before it.
func check(text string) string {
	var digits [checkLength]byte
	sum := crc32.ChecksumIEEE([]byte(text))
	for i := checkLength - 1; i >= 0; i-- {
		digits[i] = alphabet[sum%uint32(len(alphabet))]
		sum /= uint32(len(alphabet))
	}
	return string(digits[:])
}

// isWellFormed reports whether text could be a key.
func isWellFormed(text string) bool {
	return len(text) == length && strings.HasPrefix(text, credential.Prefix) && text[secretAt-1] == '_' &&
		check(text[:checkAt]) == text[checkAt:]
}

// IDOf returns the id of the key that text is, as whoever found one wants to know, and whether it is one.
func IDOf(text string) (string, bool) {
	if !isWellFormed(text) || !found.MatchString(text) {
		return "", false
	}
	return text[idAt:][:idLength], true
}

var found = regexp.MustCompile(`^` + Pattern + `$`)

// A pepper makes the sums of one database unlike those of any other. With it a secret is as long as one round of
// SHA-256 takes.
type pepper [12]byte

// A sum is what is kept of a key: the SHA-256 of the pepper and the secret. Both are of one length, so there is
// nothing for HMAC's second round to prevent.
type sum [sha256.Size]byte

// sum returns the sum of the secret in a text of a key's length.
func (p *pepper) sum(text string) sum {
	var b [len(p) + secretLength]byte
	copy(b[:], p[:])
	copy(b[len(p):], text[secretAt:])
	return sha256.Sum256(b[:])
}

const (
	idAt     = len(credential.Prefix)
	secretAt = idAt + idLength + 1
	checkAt  = secretAt + secretLength
)

// isKeyOf reports whether text, whose secret is that of e, is the whole key. The check is computed once.
func (e *entry) isKeyOf(text string) bool {
	if text[idAt:secretAt-1] != e.id || text[:idAt] != credential.Prefix || text[secretAt-1] != '_' {
		return false
	}
	var digits uint64
	for i := range checkLength {
		digits = digits<<8 | uint64(text[checkAt+i])
	}
	if digits == e.check.Load() {
		return true
	}
	if !isWellFormed(text) {
		return false
	}
	e.check.Store(digits)
	return true
}
