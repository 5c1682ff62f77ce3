package journal

import (
	"strings"
	"sync/atomic"

	"github.com/weirgate/weir/waf/mask"
)

// secrets hides what may be one in what an asker chose. Without a masker it hides nothing.
type secrets struct{ masker atomic.Pointer[mask.Masker] }

// maxWord is the longest segment of a path that may be a word, in bytes, and maxDigits how many digits it may
// have: v1, oauth2, items-2024 is none.
const (
	maxWord   = 32
	maxDigits = 2
)

// template returns what a path has in common with others of its kind: words stay, and * stands for every
// segment that may be somebody's name, number or secret.
func (s *secrets) template(path string) string {
	var b strings.Builder
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if b.Len()+1+len(segment) > maxPath {
			break
		}
		b.WriteByte('/')
		if isWord(segment) && s.piece(segment) == segment {
			b.WriteString(segment)
		} else {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// isWord reports whether a segment is what programmers call things, or empty.
func isWord(segment string) bool {
	digits := 0
	for _, c := range []byte(segment) {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(segment) <= maxWord && digits <= maxDigits && segment != "." && segment != ".."
}

// path returns a path without the secrets in it. cut says that its end is missing, which may be a secret's.
func (s *secrets) path(path string, cut bool) string { return s.pieces(path, "/", cut) }

// host returns a host without the secrets in it.
func (s *secrets) host(host string, cut bool) string { return s.pieces(host, ".", cut) }

func (s *secrets) pieces(text, between string, cut bool) string {
	if s.masker.Load() == nil {
		return text
	}
	pieces := strings.Split(text, between)
	for i, p := range pieces {
		pieces[i] = s.piece(p)
	}
	if cut {
		pieces[len(pieces)-1] = "…"
	}
	return strings.Join(pieces, between)
}

// piece returns text as it is if nothing in it is a secret, else masked.
func (s *secrets) piece(text string) string {
	m := s.masker.Load()
	if m == nil {
		return text
	}
	masked := m.Text(text)
	if len(text) <= mask.MaxFragment && masked == (*mask.Masker)(nil).Text(text) {
		return text
	}
	return masked
}
