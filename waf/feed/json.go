package feed

import (
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNested is how often a string of JSON may itself hold JSON that is read.
const maxNested = 3

// maxName bounds the name of a place, in bytes. Of a longer one the end is kept.
const maxName = 128

var badJSON = &Refusal{"json", http.StatusBadRequest, "the body is not JSON (RFC 8259)"}

// jsonText lists the strings and odd keys of a JSON text.
func (f *Feed) jsonText(text string) *Refusal {
	s := scanner{feed: f, text: strings.TrimPrefix(text, "\uFEFF")}
	if s.blank(); s.ended() {
		return nil
	}
	if refusal := s.value(1); refusal != nil {
		return refusal
	}
	if s.blank(); !s.ended() {
		return badJSON
	}
	return nil
}

// jsonTexts lists those of one text after another, as on the lines of a log.
func (f *Feed) jsonTexts(text string) *Refusal {
	s := scanner{feed: f, text: strings.TrimPrefix(text, "\uFEFF")}
	for s.blank(); !s.ended(); s.blank() {
		if refusal := s.value(1); refusal != nil {
			return refusal
		}
	}
	return nil
}

// A scanner reads JSON by the letter of RFC 8259, so that what is read is what everybody reads.
type scanner struct {
	feed *Feed
	text string
	pos  int
}

func (s *scanner) ended() bool { return s.pos >= len(s.text) }

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.ended() {
		return 0
	}
	return s.text[s.pos]
}

// blank passes white space, and the record separator that begins a text of RFC 7464.
func (s *scanner) blank() {
	for !s.ended() {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n', 0x1e:
			s.pos++
		default:
			return
		}
	}
}

// value reads one value. Depth counts this value's own level, if it has one.
func (s *scanner) value(depth int) *Refusal {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth > s.feed.limits.Depth {
			return tooDeep
		}
		if c == '{' {
			return s.object(depth)
		}
		return s.list(depth)
	case c == '"':
		text, ok := s.str()
		if !ok {
			return badJSON
		}
		return s.feed.jsonString(text, depth)
	}
	return s.scalar()
}

// object reads { "key": value, ... }.
func (s *scanner) object(depth int) *Refusal {
	return s.members('}', func() *Refusal {
		key, ok := s.str()
		if !ok {
			return badJSON
		}
		if s.blank(); s.peek() != ':' {
			return badJSON
		}
		s.pos++
		if !s.feed.skips(key) {
			if refusal := s.feed.list(Key, key, ""); refusal != nil {
				return refusal
			}
		}
		outside := len(s.feed.path)
		s.feed.enter(key)
		s.blank()
		refusal := s.value(depth + 1)
		s.feed.path = s.feed.path[:outside]
		return refusal
	})
}

// list reads [ value, ... ].
func (s *scanner) list(depth int) *Refusal {
	return s.members(']', func() *Refusal { return s.value(depth + 1) })
}

// members reads what member reads, separated by commas, up to the end byte.
func (s *scanner) members(end byte, member func() *Refusal) *Refusal {
	s.pos++
	if s.blank(); s.peek() == end {
		s.pos++
		return nil
	}
	for {
		s.blank()
		if refusal := member(); refusal != nil {
			return refusal
		}
		s.blank()
		switch s.peek() {
		case ',':
			s.pos++
		case end:
			s.pos++
			return nil
		default:
			return badJSON
		}
	}
}

// scalar reads a number or a word.
func (s *scanner) scalar() *Refusal {
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.pos:], word) {
			s.pos += len(word)
			return nil
		}
	}
	begin := s.pos
	if !s.number() {
		return badJSON
	}
	if s.feed.limits.Thorough {
		return s.feed.list(JSON, s.feed.name(), s.text[begin:s.pos])
	}
	return nil
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		if s.pos++; !s.digits() {
			return false
		}
	}
	if s.peek()|0x20 == 'e' {
		if s.pos++; s.peek() == '+' || s.peek() == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	begin := s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > begin
}

// str reads a string and returns it without its escapes.
func (s *scanner) str() (string, bool) {
	if s.peek() != '"' {
		return "", false
	}
	s.pos++
	begin := s.pos
	for i := begin; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.pos = i + 1
			return s.text[begin:i], true
		case c == '\\':
			return s.escaped(begin, i)
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// escapes are what one-letter escapes stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped goes on with a string that began at begin and has its first escape at i.
func (s *scanner) escaped(begin, i int) (string, bool) {
	out := append(make([]byte, 0, i-begin+64), s.text[begin:i]...)
	for i < len(s.text) {
		c := s.text[i]
		switch {
		case c == '"':
			s.pos = i + 1
			return string(out), true
		case c < ' ':
			return "", false
		case c != '\\':
			out = append(out, c)
			i++
			continue
		case i+1 < len(s.text) && escapes[s.text[i+1]] != 0:
			out = append(out, escapes[s.text[i+1]])
			i += 2
			continue
		}
		r, n := unicodeEscape(s.text[i:])
		if n == 0 {
			return "", false
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	return "", false
}

// unicodeEscape reads \uXXXX, or two of them that make a pair, at the beginning of text; n is 0 if there
// is none. Half a pair is U+FFFD.
func unicodeEscape(text string) (r rune, n int) {
	r, ok := fourHex(text)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if second, ok := fourHex(text[6:]); ok {
		if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func fourHex(text string) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for i := 2; i < 6; i++ {
		if !isHex(text[i]) {
			return 0, false
		}
		r = r<<4 | rune(unhex(text[i]))
	}
	return r, true
}

// jsonString lists a string of JSON, or what is in it if it is JSON or a GraphQL document.
func (f *Feed) jsonString(text string, depth int) *Refusal {
	if f.skips(text) {
		return nil
	}
	if f.isGraphQLPlace() && f.graphQL(text) {
		return nil
	}
	if f.nested < maxNested && looksLikeJSON(text) && text[0] != '"' {
		if handled, refusal := f.jsonWithin(text, depth); handled {
			return refusal
		}
	}
	return f.list(JSON, f.name(), text)
}

// jsonWithin lists what is in text if it is JSON. Its levels count on from those around it.
func (f *Feed) jsonWithin(text string, depth int) (handled bool, refusal *Refusal) {
	before, within := *f, len(f.Leaves)
	f.nested++
	s := scanner{feed: f, text: text}
	s.blank()
	refusal = s.value(depth)
	if s.blank(); refusal == badJSON || refusal == tooDeep || refusal == nil && !s.ended() {
		clear(f.Leaves[within:])
		*f = before
		return false, nil
	}
	f.nested--
	return true, refusal
}

// enter appends key to the name of the place. Lists do not show in a name, so that it names all elements.
func (f *Feed) enter(key string) {
	if len(f.path) > 0 {
		f.path = append(f.path, '/')
	}
	for i := range min(len(key), maxName) {
		c := key[i]
		if !isWordByte(c) {
			c = '_'
		}
		f.path = append(f.path, c)
	}
}

// name returns the name of the place.
func (f *Feed) name() string { return string(f.path[max(0, len(f.path)-maxName):]) }
