package crs

import (
	"net/http"
	"strings"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// The fast pass: a request in which every byte is of a kind that no rule of paranoia 1 matches skips the
// rules. TestFastPass runs the rule set's whole suite with and without it.

// maxSafe bounds the path and query that pass fast, in bytes.
const maxSafe = 1024

// isSafe reports whether no rule of paranoia 1 can match the request.
func (r *Rules) isSafe(c *waf.Case) bool {
	in := c.Input
	return isSafeMethod(in) && len(c.Feed.Leaves) == 0 && len(in.Path)+len(in.Query) <= maxSafe && in.Host != "" && !isNumeric(in.Host) &&
		(in.Proto == "HTTP/1.1" || in.Proto == "HTTP/2.0") && isSafePath(in.Path) && isSafeQuery(in.Query) && r.isSafeHeader(in.Header) &&
		!r.files.In(in.Path) && !r.agents.In(in.Header.Get("User-Agent"))
}

// isSafeMethod reports whether the method goes with the body. A body of which the feed listed nothing
// holds nothing that a rule matches, if the feed read it.
func isSafeMethod(in *waf.Input) bool {
	switch in.Method {
	case "GET", "HEAD", "DELETE":
		return len(in.Body) == 0 && !in.Chunked && in.Header["Content-Type"] == nil && (in.Header["Content-Length"] == nil || in.Header["Content-Length"][0] == "0")
	case "POST", "PUT", "PATCH":
		media := in.Header["Content-Type"]
		return len(in.Body) > 0 && len(media) == 1 && (media[0] == "application/json" || media[0] == "application/json; charset=utf-8")
	}
	return false
}

// isNumeric reports whether the host is an address, of which a rule takes notice.
func isNumeric(host string) bool {
	c := host[0]
	return '0' <= c && c <= '9' || c == '['
}

// isLocal are pieces of the names by which a machine calls itself, in lower case.
var isLocal = feed.NewWords("localhost", "ip6-")

// isSafePath reports whether every segment is a word, and the last has no ending that tells of a file on
// the server.
func isSafePath(path string) bool {
	if !strings.HasPrefix(path, "/") || isLocal.In(path) {
		return false
	}
	rest := path[1:]
	if dot := strings.LastIndexByte(path, '.'); dot > strings.LastIndexByte(path, '/') && isSafeEnding(path[dot+1:]) {
		rest = path[1:dot]
	}
	for more := true; more; {
		var segment string
		if segment, rest, more = strings.Cut(rest, "/"); !isSafeWord(segment) || more && segment == "" {
			return false
		}
	}
	return true
}

// isSafeEnding reports whether ending is one that an API and its pages serve.
func isSafeEnding(ending string) bool {
	switch ending {
	case "json", "html", "css", "js", "png", "jpg", "svg", "ico", "webp", "woff2", "txt", "xml", "csv", "pdf":
		return true
	}
	return false
}

// isSafeQuery reports whether the query is pairs of words. An equals sign within a value is an assignment
// to rules, and &dollar the name of a character.
func isSafeQuery(query string) bool {
	for more := query != ""; more; {
		var pair string
		pair, query, more = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		if !isSafeWord(name) || !isSafeWord(value) || len(name) >= 6 && strings.EqualFold(name[:6], "dollar") {
			return false
		}
	}
	return true
}

// isSafeByte reports whether c is a letter, digit, or one of _ - and the dot.
func isSafeByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// isSafeWord reports whether text is a word that no rule knows, or a version. Any other dot makes of two
// words one that rules know: a class of Java, the document's cookie, the name of a log.
func isSafeWord(text string) bool {
	for i := range len(text) {
		if !isSafeByte(text[i]) {
			return false
		}
	}
	if strings.Contains(text, ".") {
		text = strings.TrimPrefix(text, "v")
	}
	return feed.Plain(text)
}

// isSafeHeader reports whether every field is one that all clients send, with a value that clients send.
func (r *Rules) isSafeHeader(h http.Header) bool {
	for name, lines := range h {
		if len(lines) != 1 || !isSafeField(name, lines[0]) || r.classes.In(lines[0]) || inFields.In(lines[0]) {
			return false
		}
	}
	return true
}

// inFields are pieces, in lower case, that rules look for in every field: what goes with a class of Java, a
// package of Oracle, and a path in hexadecimal.
var inFields = feed.NewWords("runtime", "processbuilder", "dbms_", "0x2e", "0x5c")

// isSafeField reports whether no rule matches the field.
func isSafeField(name, value string) bool {
	switch name {
	case "User-Agent":
		return isSafeAgent(value) && areSafeComments(value)
	case "Accept":
		return isSafeList(value, isSafeRange)
	case "Accept-Encoding", "Accept-Language", "Priority":
		return len(value) < 100 && isSafeList(value, isSafeChoice)
	case "Cache-Control", "Pragma", "Te", "Dnt", "Upgrade-Insecure-Requests":
		return isMadeOf(strings.TrimPrefix(value, "max-age="), ", ")
	case "Connection":
		return strings.EqualFold(value, "keep-alive") || strings.EqualFold(value, "close")
	case "Authorization", "X-Api-Key", "X-Request-Id", "Traceparent", "If-Modified-Since":
		return isMadeOf(strings.TrimRight(value, "="), " ,:")
	case "Origin", "X-Forwarded-Proto", "X-Forwarded-Host":
		return isMadeOf(value, ":/")
	case "X-Forwarded-For", "X-Real-Ip":
		return strings.Trim(strings.ToLower(value), "0123456789abcdef.:, ") == ""
	case "Content-Length":
		return isMadeOf(value, "")
	case "Content-Type":
		return true // judged with the method
	}
	return strings.HasPrefix(name, "Sec-Fetch-") && isMadeOf(value, "?")
}

// isSafeList reports whether value is a list of what is, with parameters such as q=0.8 and v=b3.
func isSafeList(value string, is func(string) bool) bool {
	for one := range strings.SplitSeq(value, ",") {
		item, parameters, more := strings.Cut(strings.Trim(one, " "), ";")
		if !is(item) {
			return false
		}
		for more {
			var p string
			p, parameters, more = strings.Cut(parameters, ";")
			if p = strings.Trim(p, " "); !isSafeParameter(p) {
				return false
			}
		}
	}
	return true
}

// isSafeParameter reports whether text is a parameter of one letter.
func isSafeParameter(text string) bool {
	return len(text) > 2 && isMadeOf(text[:1], "") && text[1] == '=' && isMadeOf(text[2:], "")
}

// isSafeRange reports whether text is a media range (RFC 9110 section 12.5.1).
func isSafeRange(text string) bool {
	major, minor, _ := strings.Cut(text, "/")
	return major != "" && minor != "" && isMadeOf(major, "*") && isMadeOf(minor, "*+")
}

// isSafeChoice reports whether text is a coding, a language, or a setting of one letter.
func isSafeChoice(text string) bool { return isMadeOf(text, "*") || isSafeParameter(text) }

// isMadeOf reports whether value is safe bytes and those of more, without what begins a comment or goes
// up a path.
func isMadeOf(value, more string) bool {
	for i := range len(value) {
		if c := value[i]; !isSafeByte(c) && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return !strings.Contains(value, "--") && !strings.Contains(value, "..")
}

// agentWords are the words that browsers and client libraries call themselves by.
var agentWords = wordSet(`Mozilla Gecko AppleWebKit KHTML like Safari Version Mobile Chrome Chromium CriOS Edg EdgA EdgiOS OPR Firefox FxiOS
	X11 Linux x86 x64 aarch64 Ubuntu Debian Fedora Windows NT Win64 WOW64 Macintosh Intel Mac OS X iPhone iPad CPU Android K rv compatible
	curl Go-http-client okhttp Dart dart io Java node axios python-requests PostmanRuntime`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// isSafeAgent reports whether value is known products with their versions and comments (RFC 9110 section
// 10.1.5). What else may be in it is as much an attack as in a parameter.
func isSafeAgent(value string) bool {
	const separators = " /_();:,"
	if product, _, _ := strings.Cut(value, "/"); !agentWords[product] {
		return false
	}
	for len(value) > 0 {
		end := strings.IndexAny(value, separators)
		if end < 0 {
			end = len(value)
		}
		if word := value[:end]; word != "" && !agentWords[word] && !isVersion(word) {
			return false
		}
		value = value[min(end+1, len(value)):]
	}
	return true
}

// areSafeComments reports whether each comment ends before the next, a version follows each slash, and what
// else parts words is in comments.
func areSafeComments(value string) bool {
	isOpen := false
	for i := range len(value) {
		switch value[i] {
		case '/':
			if i+1 == len(value) || !isDigit(value[i+1]) {
				return false
			}
		case '(', ')':
			if isOpen == (value[i] == '(') {
				return false
			}
			isOpen = !isOpen
		case ';', ':':
			if !isOpen {
				return false
			}
		case ',':
			if !isOpen || !strings.HasPrefix(value[i:], ", like Gecko)") {
				return false
			}
		}
	}
	return !isOpen
}

// isVersion reports whether word is numbers between dots, or a build such as 15E148.
func isVersion(word string) bool {
	letters := strings.Trim(word, "0123456789.")
	return isDigit(word[0]) && isDigit(word[len(word)-1]) && !strings.Contains(word, "..") && (letters == "" || len(letters) == 1 && !strings.Contains(word, "."))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
