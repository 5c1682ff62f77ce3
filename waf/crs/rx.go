package crs

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/corazawaf/coraza/v3/experimental/plugins"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	re2 "github.com/wasilibs/go-re2"
	"github.com/wasilibs/go-re2/experimental"
)

// The lengths in bytes from which on RE2 is the faster engine, for patterns that the standard library
// backtracks through and for those that are too big for it. Below them a call of RE2 costs more than the
// match, and waits for a lock that all its calls share.
const (
	longText   = 64
	longForBig = 16
	bigPattern = 500 // instructions
)

// registerRX gives Coraza our operator for regular expressions, in place of its own. The registry is the
// process's, and there is one operator for all.
var registerRX = sync.OnceFunc(func() {
	plugins.RegisterOperator("rx", newRX)
	plugins.RegisterOperator("weirScreen", newGrouped)
})

// An rx matches short texts by the standard library and long ones by RE2, which read one syntax.
type rx struct {
	short *regexp.Regexp // nil if the pattern holds bytes that are not UTF-8
	long  *re2.Regexp
	from  int // the length of a long text
	needs []byteSet
	ways  []way
}

func newRX(o plugintypes.OperatorOptions) (plugintypes.Operator, error) {
	compiled, err := o.Memoizer.Do("weir-rx:"+o.Arguments, func() (any, error) { return compileRX(o.Arguments) })
	if err != nil {
		return nil, err
	}
	return compiled.(*rx), nil
}

// compileRX compiles a pattern and runs it once, so that no request pays for what RE2 builds on first use.
func compileRX(pattern string) (*rx, error) {
	op := new(rx)
	var err error
	if isBytes(pattern) {
		op.long, err = experimental.CompileLatin1(pattern)
	} else {
		pattern = "(?sm)" + pattern // as Coraza does
		if op.short, err = regexp.Compile(pattern); err != nil {
			return nil, err
		}
		if err = op.study(pattern); err != nil {
			return nil, err
		}
		op.long, err = re2.Compile(pattern)
	}
	if err != nil {
		return nil, err
	}
	op.long.MatchString(strings.Repeat("warm up ", longText/8))
	return op, nil
}

// study finds out what a pattern needs, and from which length on RE2 is faster.
func (op *rx) study(pattern string) error {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	if op.from = longText; len(program.Inst) > bigPattern {
		op.from = longForBig
	}
	tree = tree.Simplify()
	op.needs, op.ways = needsOf(tree), waysOf(tree)
	return nil
}

// lacks reports whether a text of these bytes lacks what every match holds.
func (op *rx) lacks(has *byteSet) bool {
	for i := range op.needs {
		if !op.needs[i].meets(has) {
			return true
		}
	}
	return false
}

// matches reports whether text matches.
func (op *rx) matches(text string) bool {
	switch {
	case len(text) < op.from:
		return op.short.MatchString(text)
	case op.short == nil:
		return op.long.MatchString(text)
	}
	return op.long.MatchString(valid(text))
}

// Evaluate reports whether text matches, and notes what the groups matched if the rule asks.
func (op *rx) Evaluate(tx plugintypes.TransactionState, text string) bool {
	if text == oneName { // a name of ours
		return false
	}
	if has := bytesIn(text); op.lacks(&has) || !op.matches(text) {
		return false
	}
	if !tx.Capturing() {
		return true
	}
	if len(text) < op.from {
		capture(tx, text, op.short.FindStringSubmatchIndex(text))
	} else {
		if op.short != nil {
			text = valid(text)
		}
		capture(tx, text, op.long.FindStringSubmatchIndex(text))
	}
	return true
}

// capture notes the groups 0 to 8.
func capture(tx plugintypes.TransactionState, text string, groups []int) {
	for i := 0; i < min(len(groups)/2, 9); i++ {
		value := ""
		if begin := groups[2*i]; begin >= 0 {
			value = text[begin:groups[2*i+1]]
		}
		tx.CaptureField(i, value)
	}
}

// valid returns text with U+FFFD for each byte that is not UTF-8, as the standard library reads it. To
// RE2 such a byte would be nothing that a dot matches: a way through every rule.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/4)
	for _, r := range text {
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// isBytes reports whether a pattern's hexadecimal escapes spell bytes that are not UTF-8.
func isBytes(pattern string) bool {
	out := make([]byte, 0, len(pattern))
	for i := 0; i < len(pattern); {
		c, n := patternByte(pattern[i:])
		out = append(out, c)
		i += n
	}
	return !utf8.Valid(out)
}

// hexByte is an escape that stands for one byte.
var hexByte = regexp.MustCompile(`^\\x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,2})\})`)

// patternByte returns the byte that a pattern begins with, and how long its spelling is.
func patternByte(pattern string) (c byte, n int) {
	if pattern[0] != '\\' {
		return pattern[0], 1
	}
	m := hexByte.FindStringSubmatch(pattern)
	if m == nil {
		return pattern[0], 1
	}
	for _, digit := range []byte(m[1] + m[2]) {
		c <<= 4
		if digit <= '9' {
			c |= digit - '0'
		} else {
			c |= digit | 0x20 - 'a' + 10
		}
	}
	return c, len(m[0])
}
