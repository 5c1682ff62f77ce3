// Package credential knows where a request may bear an API key: it finds the key there, and takes it off
// what is passed on.
package credential

import (
	"net/url"
	"strings"

	"github.com/weirgate/weir"
)

// Prefix begins every API key of ours. Bearer tokens without it are somebody else's.
const Prefix = "weir_"

// Places are where a request may bear an API key. They are never changed; nil is nowhere.
type Places struct {
	Header string // canonical name of a header field; empty: none
	Bearer bool   // Authorization: Bearer (RFC 6750 section 2.1), for tokens that begin with [Prefix]
	Query  string // name of a query parameter; empty: none
}

// Find returns the API key that req bears and how many different ones there are, where 2 stands for more,
// too. What it returns need not be a key: in the header field and the parameter anything is taken for one.
func (p *Places) Find(req *weir.Request) (secret string, n int) {
	var f found
	if p.Header != "" {
		for _, line := range req.Header[p.Header] {
			f.add(strings.TrimSpace(line))
		}
	}
	if p.Bearer {
		for _, line := range req.Header["Authorization"] {
			f.add(bearer(line))
		}
	}
	if p.Query != "" {
		for rest := req.Query; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			if name, value, _ := strings.Cut(pair, "="); plain(name) == p.Query {
				f.add(plain(value))
			}
		}
	}
	return f.secret, f.n
}

// found is what was found so far. The same key in two places is one.
type found struct {
	secret string
	n      int
}

func (f *found) add(text string) {
	switch {
	case text == "":
	case f.n == 0:
		f.secret, f.n = text, 1
	case text != f.secret:
		f.n = 2
	}
}

// bearer returns the API key of a line of Authorization, or nothing.
func bearer(line string) string {
	if token, _ := Bearer(line); strings.HasPrefix(token, Prefix) {
		return token
	}
	return ""
}

// Bearer returns what a line of Authorization bears, and whether its scheme is Bearer. Schemes know no case (RFC
// 9110 section 11.1) and end with the first byte that no token has: one space should follow (RFC 6750 section 2.1),
// but there are services that take a tab for it, and what they read is to be looked at here.
func Bearer(line string) (token string, ok bool) {
	const scheme = "Bearer"
	line = strings.TrimLeft(line, " \t")
	if len(line) <= len(scheme) || !strings.EqualFold(line[:len(scheme)], scheme) || isTokenByte(line[len(scheme)]) {
		return "", false
	}
	return strings.TrimSpace(line[len(scheme):]), true
}

// isTokenByte reports whether a token may have b (RFC 9110 section 5.6.2).
func isTokenByte(b byte) bool {
	switch {
	case '0' <= b && b <= '9', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}

// plain returns text as a form's reader understands it, or as it is where that cannot be read.
func plain(text string) string {
	if strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '+') < 0 {
		return text
	}
	decoded, err := url.QueryUnescape(text)
	if err != nil {
		return text
	}
	return decoded
}

// Fields returns the names in header that bear an API key, or are read as the field that does where '_' and
// '.' are '-', in whatever case they are written.
func (p *Places) Fields(header map[string][]string) []string {
	if p == nil {
		return nil
	}
	var names []string
	for name, lines := range header {
		if p.Header != "" && weir.SameField(name, p.Header) || p.Bearer && weir.SameField(name, "Authorization") && anyKey(lines) {
			names = append(names, name)
		}
	}
	return names
}

func anyKey(lines []string) bool {
	for _, line := range lines {
		if bearer(line) != "" {
			return true
		}
	}
	return false
}

// WithoutKey returns a query without the parameter that bears API keys, and else as it was. Pairs are separated by &,
// and here also by ;, as HTML 4.01 advised (B.2.2): a key is looked for between & alone, but there are services
// that would find one there, and they get none.
func (p *Places) WithoutKey(query string) string {
	if !p.InQuery(query) {
		return query
	}
	var kept strings.Builder
	between := ""
	for more := true; more; {
		var pair, separator string
		pair, separator, query = cutPair(query)
		if !p.isKey(pair) {
			if kept.Len() > 0 {
				kept.WriteString(between)
			}
			kept.WriteString(pair)
			between = ""
		}
		if between != "&" { // what & separated stays two pairs to who knows no other separator
			between = separator
		}
		more = separator != ""
	}
	return kept.String()
}

// InQuery reports whether a query has the parameter that bears API keys, as [Places.WithoutKey] takes it off.
func (p *Places) InQuery(query string) bool {
	if p == nil || p.Query == "" {
		return false
	}
	for query != "" {
		var pair string
		if pair, _, query = cutPair(query); p.isKey(pair) {
			return true
		}
	}
	return false
}

// cutPair returns a query's first pair, what separates it from the rest, and the rest.
func cutPair(query string) (pair, separator, rest string) {
	i := strings.IndexAny(query, "&;")
	if i < 0 {
		return query, "", ""
	}
	return query[:i], query[i : i+1], query[i+1:]
}

func (p *Places) isKey(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	return plain(name) == p.Query
}
