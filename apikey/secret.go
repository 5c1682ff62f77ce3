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
	const mark = len(credential.Prefix) + idLength
	return len(text) == length && strings.HasPrefix(text, credential.Prefix) && text[mark] == '_' &&
		check(text[:length-checkLength]) == text[length-checkLength:]
}

// IDOf returns the id of the key that text is, as whoever found one wants to know, and whether it is one.
func IDOf(text string) (string, bool) {
	if !isWellFormed(text) || !found.MatchString(text) {
		return "", false
	}
	return text[len(credential.Prefix):][:idLength], true
}

var found = regexp.MustCompile(`^` + Pattern + `$`)

// A pepper makes the sums of one database unlike those of any other.
type pepper [32]byte

// A sum is what is kept of a key: the SHA-256 of the pepper and the key. Both are of one length, so there is
// nothing for HMAC's second round to prevent.
type sum [sha256.Size]byte

// sum returns the sum of a text of a key's length.
func (p *pepper) sum(text string) sum {
	var b [len(p) + length]byte
	copy(b[:], p[:])
	copy(b[len(p):], text)
	return sha256.Sum256(b[:])
}
