package feed

import (
	"strings"
)

// isGraphQLPlace reports whether the place in JSON is where a GraphQL document is sent (the member query
// of the request, GraphQL over HTTP section 5.4).
func (f *Feed) isGraphQLPlace() bool { return string(f.path) == "query" }

// graphQL lists the strings and comments of text if it is a GraphQL document, and reports whether it is.
// What else such a document is made of are names, numbers and punctuation in an order that no injection
// has.
func (f *Feed) graphQL(text string) bool {
	g := graph{text: text, depth: f.limits.Depth}
	if !g.document() {
		return false
	}
	for _, found := range g.found {
		if !f.skips(found) && f.list(Literal, f.name(), found) != nil {
			return false // past a limit it is refused as the text that it is
		}
	}
	return true
}

// maxDocument is how deep a document in a query may nest.
const maxDocument = 64

// Literals returns the strings and comments of text if it is a GraphQL document.
func Literals(text string) (found []string, isDocument bool) {
	g := graph{text: text, depth: maxDocument}
	isDocument = g.document()
	return g.found, isDocument
}

// A graph recognises the shape of GraphQL documents (October 2021 edition, section 2).
type graph struct {
	text  string
	depth int
	found []string // strings and comments
	token string   // the next one: a name, a number, a string's first quote or a punctuator; empty at the end
	bad   bool
}

// document reports whether the text is definitions and nothing else.
func (g *graph) document() bool {
	g.next()
	if g.token == "" {
		return false
	}
	for g.token != "" && !g.bad {
		g.definition()
	}
	return !g.bad
}

// definition passes an operation or a fragment.
func (g *graph) definition() {
	switch g.token {
	case "{":
	case "query", "mutation", "subscription":
		if g.next(); isName(g.token) {
			g.next()
		}
		if g.token == "(" {
			g.pairs(")", g.variable)
		}
		g.directives()
	case "fragment":
		g.next()
		g.want(isName)
		g.wantToken("on")
		g.want(isName)
		g.directives()
	default:
		g.bad = true
		return
	}
	g.selections(1)
}

// variable passes $name: Type = default @directives.
func (g *graph) variable() {
	g.wantToken("$")
	g.want(isName)
	g.wantToken(":")
	for g.token == "[" {
		g.next()
	}
	g.want(isName)
	for g.token == "]" || g.token == "!" {
		g.next()
	}
	if g.token == "=" {
		g.next()
		g.value(1)
	}
	g.directives()
}

// selections passes { field alias: field(argument: value) @directive { ... } ... on Type { ... } }.
func (g *graph) selections(depth int) {
	if depth > g.depth {
		g.bad = true
		return
	}
	g.wantToken("{")
	for !g.bad && g.token != "}" {
		g.selection(depth)
	}
	g.wantToken("}")
}

func (g *graph) selection(depth int) {
	if g.token == "..." {
		if g.next(); g.token == "on" {
			g.next()
			g.want(isName)
		} else if isName(g.token) {
			g.next()
		}
	} else {
		g.want(isName)
		if g.token == ":" {
			g.next()
			g.want(isName)
		}
		if g.token == "(" {
			g.pairs(")", g.argument)
		}
	}
	g.directives()
	if g.token == "{" {
		g.selections(depth + 1)
	}
}

// pairs passes what one passes, from the opening token to end.
func (g *graph) pairs(end string, one func()) {
	g.next()
	for !g.bad && g.token != end {
		one()
	}
	g.wantToken(end)
}

func (g *graph) argument() {
	g.want(isName)
	g.wantToken(":")
	g.value(1)
}

func (g *graph) directives() {
	for !g.bad && g.token == "@" {
		g.next()
		g.want(isName)
		if g.token == "(" {
			g.pairs(")", g.argument)
		}
	}
}

// value passes a literal or a variable.
func (g *graph) value(depth int) {
	if depth > g.depth || g.bad {
		g.bad = true
		return
	}
	switch {
	case g.token == "$":
		g.next()
		g.want(isName)
	case g.token == "[":
		g.pairs("]", func() { g.value(depth + 1) })
	case g.token == "{":
		g.pairs("}", func() {
			g.want(isName)
			g.wantToken(":")
			g.value(depth + 1)
		})
	default:
		g.want(func(token string) bool { return isName(token) || token == `"` || isWordByte(firstByte(token)) })
	}
}

func (g *graph) want(is func(token string) bool) {
	if !is(g.token) {
		g.bad = true
		return
	}
	g.next()
}

func (g *graph) wantToken(token string) {
	g.want(func(next string) bool { return next == token })
}

func firstByte(token string) byte {
	if token == "" {
		return 0
	}
	return token[0]
}

func isName(token string) bool {
	c := firstByte(token)
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

// next reads the next token, and sets strings and comments aside.
func (g *graph) next() {
	for {
		g.text = strings.TrimLeft(g.text, " \t\r\n,\uFEFF")
		if !strings.HasPrefix(g.text, "#") {
			break
		}
		comment, rest, _ := strings.Cut(g.text[1:], "\n")
		g.found, g.text = append(g.found, comment), rest
	}
	switch c := firstByte(g.text); {
	case c == 0:
		g.bad = g.bad || g.text != ""
		g.token = ""
	case c == '"':
		g.str()
	case strings.HasPrefix(g.text, "..."):
		g.take(3)
	case strings.IndexByte("!$&():=@[]{|}", c) >= 0:
		g.take(1)
	case isWordByte(c):
		n := 1
		for n < len(g.text) && (isWordByte(g.text[n]) && g.text[n] != '-' || g.isNumberByte(c, n)) {
			n++
		}
		g.take(n)
	default:
		g.token, g.bad = "", true
	}
}

// isNumberByte reports whether the byte at n goes on with a number that began with c.
func (g *graph) isNumberByte(c byte, n int) bool {
	isNumber := c == '-' || '0' <= c && c <= '9'
	switch g.text[n] {
	case '.':
		return isNumber
	case '+', '-':
		return isNumber && g.text[n-1]|0x20 == 'e'
	}
	return false
}

func (g *graph) take(n int) { g.token, g.text = g.text[:n], g.text[n:] }

// str passes a string or block string.
func (g *graph) str() {
	g.token = `"`
	if block, isBlock := strings.CutPrefix(g.text, `"""`); isBlock {
		text, rest, ended := strings.Cut(block, `"""`)
		g.found, g.text, g.bad = append(g.found, text), rest, g.bad || !ended
		return
	}
	s := scanner{text: g.text}
	text, ok := s.str()
	g.bad = g.bad || !ok
	g.found, g.text = append(g.found, text), g.text[s.pos:]
}
