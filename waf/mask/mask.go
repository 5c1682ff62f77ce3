// Package mask hides secrets in what is written down about a request: by what a parameter is called, and
// by what a text looks like. It prefers to hide too much.
package mask

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kinds are what can be hidden by content, beside regex:EXPRESSION.
func Kinds() []string { return []string{"wallet", "token", "email", "card", "iban", "phone"} }

// MaxFragment is the longest fragment that is kept, in bytes.
const MaxFragment = 64

// around is how far from a fragment secrets that reach into it are looked for, in bytes.
const around = 512

// A Masker hides secrets of the chosen kinds. It is safe for concurrent use; the nil Masker hides nothing.
type Masker struct {
	finders []finder
}

// A finder marks the secrets of one kind in a text.
type finder struct {
	label string
	find  func(m *marks)
}

// New returns a masker of the kinds, each one of [Kinds] or regex:EXPRESSION.
func New(kinds []string) (*Masker, error) {
	m := new(Masker)
	for _, kind := range kinds {
		expression, isRegex := strings.CutPrefix(kind, "regex:")
		if !isRegex && !slices.Contains(Kinds(), kind) {
			return nil, fmt.Errorf("mask: %s: want one of %s, or regex:EXPRESSION", kind, strings.Join(Kinds(), " "))
		}
		if isRegex {
			re, err := regexp.Compile(expression)
			if err != nil {
				return nil, fmt.Errorf("mask: %w", err)
			}
			m.finders = append(m.finders, finder{"masked", func(m *marks) { m.findRegexp(re) }})
		}
	}
	for _, f := range finders() {
		if slices.Contains(kinds, f.label) {
			m.finders = append(m.finders, f)
		}
	}
	return m, nil
}

// finders are those of all kinds, what is most certain first.
func finders() []finder {
	return []finder{{"email", (*marks).findEmails}, {"iban", (*marks).findIBANs}, {"card", (*marks).findCards}, {"phone", (*marks).findPhones},
		{"wallet", (*marks).findWallets}, {"token", (*marks).findTokens}}
}

// secretNames are pieces, in lower case, of the names of parameters whose values are secrets.
var secretNames = [...]string{"passw", "pwd", "passphrase", "secret", "token", "authoriz", "oauth", "x-auth", "cookie", "session", "cvv", "cvc", "apikey", "api_key", "api-key",
	"credential", "private", "mnemonic", "seed_phrase", "seedphrase"}

// IsSecret reports whether what is called so is a secret, whatever it looks like.
func (m *Masker) IsSecret(name string) bool {
	if m == nil || len(m.finders) == 0 {
		return false
	}
	name = strings.ToLower(name)
	for _, piece := range secretNames {
		if strings.Contains(name, piece) {
			return true
		}
	}
	return name == "pin" || strings.HasSuffix(name, "/pin")
}

// Text returns at most MaxFragment bytes of text, masked.
func (m *Masker) Text(text string) string { return m.Cut(text, 0) }

// Cut returns at most MaxFragment bytes of text from at on, masked. A secret that the cut would go through
// is hidden whole.
func (m *Masker) Cut(text string, at int) string {
	at = max(0, min(at, len(text)))
	begin, end := max(0, at-around), min(len(text), at+MaxFragment+around)
	text, at = text[begin:end], at-begin
	if strings.IndexByte(text, '%') >= 0 { // as it was sent: the secret is in what it means
		text, at = unescape(unescape(text[:at]))+unescape(unescape(text[at:])), len(unescape(unescape(text[:at])))
	}
	marks := &marks{text: text, kind: make([]uint8, len(text))}
	if m != nil {
		for i := range m.finders {
			marks.current = uint8(i + 1)
			m.finders[i].find(marks)
		}
	}
	return m.render(marks, at)
}

// render writes what is not marked, and a label for what is.
func (m *Masker) render(marks *marks, at int) string {
	for at > 0 && at < len(marks.text) && !utf8.RuneStart(marks.text[at]) {
		at--
	}
	var out strings.Builder
	for i := at; i < len(marks.text); {
		piece, next := m.piece(marks, i)
		if out.Len()+len(piece) > MaxFragment {
			break
		}
		out.WriteString(piece)
		i = next
	}
	return out.String()
}

// piece returns what is written for the character or secret at i, and where the next one begins.
func (m *Masker) piece(marks *marks, i int) (piece string, next int) {
	kind := marks.kind[i]
	if kind == 0 {
		r, n := utf8.DecodeRuneInString(marks.text[i:])
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return "\uFFFD", i + n
		}
		return marks.text[i : i+n], i + n
	}
	begin, end := i, i+1
	for begin > 0 && marks.kind[begin-1] == kind {
		begin--
	}
	for end < len(marks.text) && marks.kind[end] == kind {
		end++
	}
	return label(m.finders[kind-1].label, marks.text[begin:end]), end
}

// label stands for a secret. A wallet keeps four characters at either end, so that its owner knows it.
func label(kind, secret string) string {
	if kind == "wallet" && len(secret) >= 25 {
		return "[wallet " + secret[:4] + "…" + secret[len(secret)-4:] + "]"
	}
	return "[" + kind + "]"
}

// unescape decodes percent escapes, and leaves what is none.
func unescape(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if hi, lo := strings.IndexByte(hexDigits, lower(text[i+1])), strings.IndexByte(hexDigits, lower(text[i+2])); hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

const hexDigits = "0123456789abcdef"

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
