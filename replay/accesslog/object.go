package accesslog

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An object is a line that is a JSON object: what is wanted, by the paths of its members.
type object struct {
	root *member
}

// A member of an object is a value that is wanted, or holds such ones.
type member struct {
	field   field
	headers bool // an object of header names with a string or an array of strings each
	header  string
	below   map[string]*member
}

var (
	errJSON  = errors.New("no JSON object")
	errDepth = errors.New("a JSON object that is too deep")
)

func (o *object) read(text string, s *scratch) error {
	c := cursor{text: text, s: s}
	c.space()
	if err := c.object(o.root, 0); err != nil {
		return err
	}
	c.space()
	if c.at != len(text) {
		return errJSON
	}
	return nil
}

// parseObject compiles pairs of path=field, separated by blanks, and says what their lines have.
func parseObject(text string) (*object, Has, error) {
	o, has := &object{root: &member{}}, Has{}
	for pair := range strings.FieldsSeq(text) {
		path, name, ok := strings.Cut(pair, "=")
		if !ok || path == "" {
			return nil, has, fmt.Errorf("%q is no pair: want MEMBER=FIELD, as in json:ts=time", pair)
		}
		m := o.root.find(path)
		if name == "headers" {
			m.headers, has.AllHeaders = true, true
			continue
		}
		var err error
		if m.field, m.header, err = fieldOf(name); err != nil {
			return nil, has, err
		}
		has.add(m.field, m.header)
	}
	return o, has, has.enough()
}

// find returns the member at path, whose names are separated by dots, and makes it.
func (m *member) find(path string) *member {
	for name := range strings.SplitSeq(path, ".") {
		if m.below == nil {
			m.below = map[string]*member{}
		}
		if m.below[name] == nil {
			m.below[name] = &member{}
		}
		m = m.below[name]
	}
	return m
}

// deepest is how many values may lie in one another.
const deepest = 32

// A cursor reads JSON (RFC 8259) from left to right, and hands on what is wanted.
type cursor struct {
	text string
	at   int
	s    *scratch
}

func (c *cursor) space() {
	for c.at < len(c.text) && strings.IndexByte(" \t\r\n", c.text[c.at]) >= 0 {
		c.at++
	}
}

// take reads b, after blanks.
func (c *cursor) take(b byte) bool {
	c.space()
	if c.at < len(c.text) && c.text[c.at] == b {
		c.at++
		return true
	}
	return false
}

// object reads an object of which m, which may be nil, says what is wanted.
func (c *cursor) object(m *member, depth int) error {
	if !c.take('{') {
		return errJSON
	}
	if c.take('}') {
		return nil
	}
	for {
		c.space()
		name, err := c.string()
		if err != nil || !c.take(':') {
			return errJSON
		}
		if err := c.member(m, name, depth+1); err != nil {
			return err
		}
		switch {
		case c.take(','):
		case c.take('}'):
			return nil
		default:
			return errJSON
		}
	}
}

// member reads the value of m's member of that name.
func (c *cursor) member(m *member, name string, depth int) error {
	switch {
	case m == nil:
		return c.value(nil, depth)
	case m.headers:
		return c.headerValues(canonical(name), depth)
	}
	return c.value(m.below[name], depth)
}

// value reads any value; m says what is wanted of it.
func (c *cursor) value(m *member, depth int) error {
	if depth > deepest {
		return errDepth
	}
	c.space()
	if c.at == len(c.text) {
		return errJSON
	}
	switch c.text[c.at] {
	case '{':
		return c.object(m, depth)
	case '[':
		return c.array(depth, func() error { return c.value(nil, depth+1) })
	}
	text, null, err := c.scalar()
	if err != nil || m == nil || null {
		return err
	}
	if m.field == header {
		c.s.setHeader(m.header, text)
		return nil
	}
	return c.s.set(m.field, text)
}

// array reads an array; each reads one of its values.
func (c *cursor) array(depth int, each func() error) error {
	c.at++ // the bracket
	if c.take(']') {
		return nil
	}
	for {
		if err := each(); err != nil {
			return err
		}
		switch {
		case c.take(','):
		case c.take(']'):
			return nil
		default:
			return errJSON
		}
	}
}

// headerValues reads what an object of headers has under name.
func (c *cursor) headerValues(name string, depth int) error {
	c.space()
	one := func() error {
		c.space()
		if c.at < len(c.text) && c.text[c.at] != '"' {
			return c.value(nil, depth+2)
		}
		text, err := c.string()
		if err == nil {
			c.s.setHeader(name, text)
		}
		return err
	}
	if c.at < len(c.text) && c.text[c.at] == '[' {
		return c.array(depth+1, one)
	}
	return one()
}

// scalar reads a string, a number, or one of the words.
func (c *cursor) scalar() (text string, null bool, err error) {
	if c.text[c.at] == '"' {
		text, err = c.string()
		return text, false, err
	}
	from := c.at
	for c.at < len(c.text) && strings.IndexByte(",]} \t\r\n", c.text[c.at]) < 0 {
		c.at++
	}
	switch text = c.text[from:c.at]; {
	case text == "null":
		return "", true, nil
	case text == "true", text == "false", isNumber(text):
		return text, false, nil
	}
	return "", false, errJSON
}

// isNumber reports whether s is a number of JSON (RFC 8259 section 6).
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole := digits(s)
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	s = s[whole:]
	if strings.HasPrefix(s, ".") {
		n := digits(s[1:])
		if n == 0 {
			return false
		}
		s = s[1+n:]
	}
	if s == "" {
		return true
	}
	if s[0]|0x20 != 'e' {
		return false
	}
	if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && digits(s) == len(s)
}

// digits is how many digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n]-'0' <= 9 {
		n++
	}
	return n
}

// string reads a string. One without escapes shares the line's memory.
func (c *cursor) string() (string, error) {
	if c.at == len(c.text) || c.text[c.at] != '"' {
		return "", errJSON
	}
	c.at++
	for from := c.at; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case b == '"':
			c.at++
			return c.text[from : c.at-1], nil
		case b == '\\':
			return c.escaped(from)
		case b < ' ':
			return "", errJSON
		}
	}
	return "", errJSON
}

// escaped reads on a string that began at from and has its first escape here.
func (c *cursor) escaped(from int) (string, error) {
	out := []byte(c.text[from:c.at])
	for c.at < len(c.text) {
		b := c.text[c.at]
		c.at++
		switch {
		case b == '"':
			return string(out), nil
		case b < ' ':
			return "", errJSON
		case b != '\\':
			out = append(out, b)
			continue
		}
		r, ok := c.escape()
		if !ok {
			return "", errJSON
		}
		out = utf8.AppendRune(out, r)
	}
	return "", errJSON
}

// escape reads what follows a backslash.
func (c *cursor) escape() (rune, bool) {
	if c.at == len(c.text) {
		return 0, false
	}
	b := c.text[c.at]
	c.at++
	if b == 'u' {
		return c.unicode()
	}
	at := strings.IndexByte(`"\/bfnrt`, b)
	if at < 0 {
		return 0, false
	}
	return rune("\"\\/\b\f\n\r\t"[at]), true
}

// unicode reads four hexadecimal digits, and the second half of a pair of surrogates.
func (c *cursor) unicode() (rune, bool) {
	r, ok := c.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if strings.HasPrefix(c.text[c.at:], `\u`) {
		before := c.at
		c.at += 2
		low, ok := c.hex4()
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError || !ok {
			return pair, ok
		}
		c.at = before
	}
	return utf8.RuneError, true
}

func (c *cursor) hex4() (rune, bool) {
	if len(c.text) < c.at+4 {
		return 0, false
	}
	high, ok1 := unhex(c.text[c.at:])
	low, ok2 := unhex(c.text[c.at+2:])
	c.at += 4
	return rune(high)<<8 | rune(low), ok1 && ok2
}
