package fast

import (
	"strings"

	"github.com/weirgate/weir/waf/feed"
)

// protocol judges the method, and fields that are an attack by being there.
func (j *judge) protocol() {
	in := j.c.Input
	switch in.Method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
	default:
		j.report("method", "protocol", 5, &feed.Leaf{Part: feed.Header, Name: ":method"}, in.Method, 0)
	}
	if value := in.Header["X-Middleware-Subrequest"]; value != nil { // CVE-2025-29927
		j.report("middleware_subrequest", "protocol", 5, &feed.Leaf{Part: feed.Header, Name: "X-Middleware-Subrequest"}, value[0], 0)
	}
	for _, line := range in.Header["Range"] {
		if strings.Count(line, ",") >= mostRanges(j.c.Path) {
			j.report("range", "protocol", 5, &feed.Leaf{Part: feed.Header, Name: "Range"}, line, 0)
		}
	}
}

// mostRanges bounds the ranges of one request (RFC 9110 section 17.15). Readers of PDF ask for a page's pieces at
// once.
func mostRanges(path string) int {
	if len(path) >= 4 && strings.EqualFold(path[len(path)-4:], ".pdf") {
		return 62
	}
	return 5
}

// badEndings are those of files that a server keeps for itself.
const badEndings = " sql bak old orig swp swo mdb sqlite sqlite3 inc ini dump backup pem key pfx jks htpasswd tfstate "

// path judges the path, decoded once and, where that leaves escapes, twice.
func (j *judge) path() {
	l := feed.Leaf{Part: feed.Path, Value: j.c.Path}
	j.place(&l, j.c.Path)
	if again := feed.Unescape(j.c.Path); len(again) != len(j.c.Path) {
		j.place(&l, again)
	}
}

func (j *judge) place(l *feed.Leaf, path string) {
	for i := 0; i+1 < len(path); i++ {
		if path[i] != '/' || path[i+1] != '.' {
			continue
		}
		if rest := path[i+2:]; strings.HasPrefix(rest, "./") || strings.HasPrefix(rest, `.\`) || rest == "." {
			j.report("traversal", "lfi", 5, l, path, i)
			break
		}
		if isHidden(path[i+1:]) {
			j.report("hidden_file", "lfi", 5, l, path, i)
			break
		}
	}
	if dot := strings.LastIndexByte(path, '.'); dot > 0 && strings.Contains(badEndings, " "+strings.ToLower(path[dot+1:])+" ") {
		j.report("restricted_ending", "lfi", 5, l, path, dot)
	}
	if !bytesOf(path).hasAny(space | quotes | angle | dollar | control | separates) {
		j.rules.marks.scan(j, l, path, nil)
		return
	}
	j.text(l, path)
	for segment := range strings.SplitSeq(path, "/") {
		if b := bytesOf(segment); b.hasAny(space | quotes) {
			j.sql(l, segment, b)
		}
	}
}

// isHidden reports whether a path goes on with the name of a file or folder that is never served.
func isHidden(rest string) bool {
	for _, name := range [...]string{".env", ".git", ".svn", ".hg", ".aws", ".ssh", ".htaccess", ".htpasswd", ".bash_history", ".docker", ".npmrc", ".ds_store"} {
		if hasPrefixFold(rest, name) && (len(rest) == len(name) || !isWord(rest[len(name)])) {
			return true
		}
	}
	return false
}

// name judges a parameter's name.
func (j *judge) name(l *feed.Leaf) {
	name := strings.ToLower(l.Name)
	switch {
	case strings.Contains(name, "__proto__"), strings.Contains(name, "constructor") && strings.Contains(name, "prototype"):
		j.report("pollution", "pollution", 5, l, l.Name, 0)
	case l.Part == feed.Key:
	case strings.Contains(name, "[$"):
		j.report("nosql_operator", "sqli", 5, l, l.Name, strings.Index(name, "[$"))
	case strings.Contains(name, "class.module.classloader"):
		j.report("java", "java", 5, l, l.Name, 0)
	}
}

// scripts are the endings that a server runs.
const scripts = " php php3 php4 php5 php7 php8 pht phtml phar phps jsp jspx jspf asp aspx ashx asmx cfm cgi pl htaccess "

// file judges the name of an uploaded file.
func (j *judge) file(l *feed.Leaf) {
	name := strings.ToLower(strings.TrimRight(l.Value, " ."))
	_, endings, _ := strings.Cut(name, ".")
	for ending := range strings.SplitSeq(endings, ".") {
		if strings.Contains(scripts, " "+strings.TrimSpace(ending)+" ") {
			j.report("upload_script", "upload", 5, l, l.Value, 0)
			break
		}
	}
	if strings.Contains(name, "../") || strings.Contains(name, `..\`) {
		j.report("upload_path", "lfi", 5, l, l.Value, 0)
	}
}

// scanners are pieces of the names under which tools call, in lower case.
var scanners = feed.NewWords("sqlmap", "nikto", "nmap", "masscan", "zgrab", "nuclei", "acunetix", "nessus", "openvas", "wpscan", "dirbuster", "gobuster",
	"feroxbuster", "havij", "w3af", "arachni", "whatweb", "jaeles", "commix", "netsparker", "qualys", "burpsuite", "fimap", "xsser", "zmeu", "jorgee")

// usual are the fields that applications read and store.
var usual = [...]string{"User-Agent", "Referer", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "X-Api-Version", "Origin", "Accept-Language", "From", "X-Client-Ip"}

// header judges cookies and the usual fields, and looks in every field for what is an attack anywhere.
func (j *judge) header() {
	h := j.c.Input.Header
	for _, line := range h["Cookie"] {
		for name, value := range feed.Cookies(line) {
			j.pair(feed.Cookie, name, feed.Unescape(value))
		}
	}
	for _, line := range h["User-Agent"] {
		if scanners.In(line) {
			j.report("scanner", "scanner", 5, &feed.Leaf{Part: feed.Header, Name: "User-Agent"}, line, 0)
		}
	}
	for name, lines := range h {
		for _, line := range lines {
			j.field(name, line)
		}
	}
}

// field judges one field. Fields that are no place for prose are looked at whole only if they are odd.
func (j *judge) field(name, line string) {
	if name == "Cookie" || len(line) < 4 {
		return
	}
	l := feed.Leaf{Part: feed.Header, Name: name, Value: line}
	if strings.Contains(line, "${") || strings.Contains(line, "() {") || strings.Contains(line, "(){") || strings.Contains(line, "..") || strings.Contains(line, "rO0AB") {
		j.rules.marks.scan(j, &l, line, nil)
	}
	for _, field := range usual {
		if name == field && bytesOf(line).hasAny(quotes|angle) {
			j.text(&l, feed.Unescape(line))
			return
		}
	}
}
