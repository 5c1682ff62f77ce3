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

// bearer returns the API key of a line of Authorization, or nothing. Schemes know no case (RFC 9110 section
// 11.1).
func bearer(line string) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(line), " ")
	if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(token, Prefix) {
		return token
	}
	return ""
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

// WithoutKey returns a query without the parameter that bears API keys, and else as it was.
func (p *Places) WithoutKey(query string) string {
	if !p.InQuery(query) {
		return query
	}
	var kept strings.Builder
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); plain(name) == p.Query {
			continue
		}
		if kept.Len() > 0 {
			kept.WriteByte('&')
		}
		kept.WriteString(pair)
	}
	return kept.String()
}

// InQuery reports whether a query has the parameter that bears API keys.
func (p *Places) InQuery(query string) bool {
	if p == nil || p.Query == "" {
		return false
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); plain(name) == p.Query {
			return true
		}
	}
	return false
}
