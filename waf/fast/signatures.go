package fast

import (
	"slices"
	"strings"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// commands are what a shell is told to run by those who have no business there.
const commands = `addgroup arp awk base64 bash busybox cat certutil chmod chown cmd cp csh curl cut dash dd dig dir echo env export expr fetch find
	ftp gcc grep head hostname id ifconfig ip ipconfig java kill ksh less ln ls lua lynx mkdir mkfifo more mount mv nano nc ncat net netcat netstat node
	nohup nslookup od openssl passwd perl php ping powershell printenv printf ps pwd pwsh python python2 python3 reg rm route ruby scp sed set sh sleep
	socat sort ssh strings su sudo tail tar tasklist tee telnet tftp timeout touch type uname uniq wc wget which who whoami xargs xxd zsh`

// signatures are all that texts are searched for.
func signatures() []signature {
	all := slices.Concat(
		one("lfi", "lfi", "etc/passwd", "etc/shadow", "etc/group", "etc/hosts", "etc/sudoers", "proc/self/", "windows/win.ini", `windows\win.ini`, "boot.ini",
			"web-inf/", ".ssh/", "id_rsa", ".bash_history", ".aws/credentials", ".htpasswd", ".git/config", ".git/head"),
		one("jndi", "java", "${jndi", "${${", "${lower:", "${upper:", "${env:", "${sys:", "${::-", "${j${"),
		near("java", "java", isUsed, "java.lang."),
		one("java", "java", "runtime.getruntime", "classloader", "processbuilder", "#_memberaccess", "xstream"),
		one("ssrf_metadata", "ssrf", "169.254.169.254", "metadata.google.internal", "100.100.100.200", "[fd00:ec2::254]", "169.254.170.2"),
		one("ssrf_scheme", "ssrf", "file://", "gopher://", "dict://", "netdoc:", "jar:http", "ldap://", "ldaps://", "tftp://"),
		one("php", "php", "php://", "phar://", "expect://", "zip://", "data://", "glob://", "<?php", "<?=", "$_get[", "$_post[", "$_request[", "$_server[", "$_cookie[",
			"allow_url_include", "auto_prepend_file"),
		near("php_call", "php", callsNext, "phpinfo", "shell_exec", "passthru", "proc_open", "popen", "pcntl_exec", "base64_decode", "file_get_contents", "file_put_contents",
			"call_user_func", "create_function", "assert", "system", "fsockopen", "move_uploaded_file", "eval"),
		one("node", "node", "child_process", "process.mainmodule", "process.binding", "process.env", "constructor.constructor", "_$$nd_func$$_", "global.process"),
		near("node_require", "node", callsNext, "require"),
		one("pollution", "pollution", "__proto__", "constructor.prototype", "constructor[prototype]"),
		one("template", "node", "__class__", "__globals__", "__subclasses__", "__mro__", "__import__"),
		near("template_probe", "node", isArithmetic, "{{", "${", "#{", "<%="),
		near("ssrf_loopback", "ssrf", isLoopback, "http://", "https://", "ftp://"),
		near("sqli_call", "sqli", callsNext, "pg_sleep", "sleep", "benchmark", "extractvalue", "updatexml", "load_file", "xp_cmdshell", "sys_eval", "dbms_pipe.receive_message", "utl_http.request"),
		one("sqli_words", "sqli", "information_schema.", "into outfile", "into dumpfile", "waitfor delay", "exec xp_", "exec master", "sys.objects", "sqlite_master", "pg_catalog."),
		near("sqli_union", "sqli", selects, "union"),
		near("sqli_stacked", "sqli", isStacked, "drop", "delete", "insert", "update", "alter", "truncate", "declare", "exec", "shutdown", "select", "create"),
		one("shell", "rce", "/dev/tcp/", "/dev/udp/", "/bin/sh", "/bin/bash", "${ifs}", "$ifs", "cmd.exe", "cmd /c"),
		near("shell", "rce", beginsText, "() {", "(){"), // CVE-2014-6271
		near("powershell", "rce", hasOption, "powershell", "pwsh"),
		near("command", "rce", isCommand, strings.Fields(commands)...),
		near("traversal", "lfi", climbs, "../", `..\`, "..;/", "..%2f", "..%5c", "%2e%2e"),
		one("xss_scheme", "xss", "javascript:alert", "javascript:eval", "javascript:document", "vbscript:", "data:text/html"),
		one("xss_tag", "xss", "<script", "<iframe", "<svg/onload", "<object data", "<embed src"),
		near("xss_style", "xss", imports, "<style"),
		near("nosql", "sqli", isFunction, "$where", "$function", "$accumulator"),
		near("rfi", "rfi", isForeignFile, "http://", "https://", "ftp://"),
	)
	for i := range all {
		switch s := &all[i]; s.rule {
		case "rfi":
			s.parts = parts(feed.Query, feed.Form)
		case "ssrf_loopback":
			s.unless = waf.OwnCallback
		case "lfi":
			if strings.HasPrefix(s.word, ".") {
				s.near = beginsName
			}
			if strings.HasPrefix(s.word, ".") || s.word == "id_rsa" {
				s.parts = parts(feed.Path, feed.Query, feed.Form, feed.File)
			}
		}
	}
	return all
}

// one makes words match wherever they stand.
func one(rule, class string, words ...string) []signature { return near(rule, class, nil, words...) }

// near makes words match where what stands around them is as it must be.
func near(rule, class string, around func(text string, begin, end int) bool, words ...string) []signature {
	var all []signature
	for _, word := range words {
		all = append(all, signature{word: strings.ToLower(word), rule: rule, class: class, score: 5, near: around})
	}
	return all
}

// skipSpace returns text without the white space, comments of SQL and shell blanks that it begins with.
func skipSpace(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\v\f+")
		switch {
		case strings.HasPrefix(text, "/*"):
			_, after, ended := strings.Cut(text[2:], "*/")
			if !ended {
				return ""
			}
			text = after
		case strings.HasPrefix(text, "*/"):
			text = text[2:]
		case hasPrefixFold(text, "${ifs}"):
			text = text[6:]
		default:
			return text
		}
	}
}

// window returns at most 200 bytes of text from i on.
func window(text string, i int) string { return text[i:min(len(text), i+200)] }

// before returns the last byte before i that is no space, or 0.
func before(text string, i int) byte {
	for i--; i >= 0 && (text[i] == ' ' || text[i] == '\t'); i-- {
	}
	if i < 0 {
		return 0
	}
	return text[i]
}

// callsNext: an opening parenthesis with something in it follows.
func callsNext(text string, _, end int) bool {
	rest := skipSpace(window(text, end))
	return len(rest) > 1 && rest[0] == '(' && strings.IndexByte(" .", rest[1]) < 0 && (end < len(text) && text[end] == '(' || strings.ContainsAny(rest[:2], `'"$0123456789`))
}

// isArithmetic: a template's opening with digits around an operator, or quotes, in it.
func isArithmetic(text string, _, end int) bool {
	rest := strings.TrimLeft(window(text, end), " ")
	n := 0
	for n < len(rest) && isDigit(rest[n]) {
		n++
	}
	rest = strings.TrimLeft(rest[n:], " ")
	if n == 0 || rest == "" || strings.IndexByte("*+-/", rest[0]) < 0 {
		return false
	}
	rest = strings.TrimLeft(rest[1:], " '")
	return rest != "" && isDigit(rest[0])
}

// isUsed: a class of Java, and not one that the trace of a stack names: what was thrown, or a frame with its
// file.
func isUsed(text string, _, end int) bool {
	rest := window(text, end)
	class := rest[:len(rest)-len(strings.TrimLeftFunc(rest, inClass))]
	if strings.HasSuffix(class, "Exception") || strings.HasSuffix(class, "Error") {
		return false
	}
	file, inFrame := strings.CutPrefix(rest[len(class):], "(")
	file, _, _ = strings.Cut(file, ")")
	return !inFrame || !strings.Contains(file, ".java:") && file != "Native Method" && file != "Unknown Source"
}

func inClass(c rune) bool { return c < 0x80 && isWord(byte(c)) || c == '.' || c == '$' }

// beginsText: nothing stands before, as in an environment variable that is a function of bash.
func beginsText(text string, begin, _ int) bool { return strings.TrimSpace(text[:begin]) == "" }

// beginsName: no name goes on here, as it does in repo.git/HEAD.
func beginsName(text string, begin, _ int) bool { return begin == 0 || !isWord(text[begin-1]) }

// isLoopback: the host of a URL is the machine itself, in any spelling of its address.
func isLoopback(text string, _, end int) bool {
	host, _, _ := strings.Cut(window(text, end), "/")
	if _, after, hasUser := strings.Cut(host, "@"); hasUser {
		host = after
	}
	if strings.HasPrefix(host, "[::1]") || strings.HasPrefix(host, "[::ffff:7f") || strings.HasPrefix(host, "[::]") || strings.HasPrefix(host, "0x7f") {
		return true
	}
	host, _, _ = strings.Cut(host, ":")
	isNumber := host != "" && strings.Trim(host, "0123456789") == "" && len(host) >= 8
	return isNumber || strings.HasPrefix(host, "127.") && strings.Trim(host, "0123456789.") == "" || host == "0.0.0.0" || strings.HasPrefix(host, "0177.")
}

// selects: union, then select, then what a selection begins with.
func selects(text string, _, end int) bool {
	rest := skipSpace(window(text, end))
	for _, word := range [...]string{"all", "distinct", "("} {
		if hasPrefixFold(rest, word) {
			rest = skipSpace(rest[len(word):])
		}
	}
	rest = skipVersion(rest)
	if !hasPrefixFold(rest, "select") {
		return false
	}
	rest = skipSpace(skipVersion(rest[len("select"):]))
	return rest != "" && (strings.IndexByte("0123456789*'\"`@(", rest[0]) >= 0 || hasPrefixFold(rest, "null") || containsFold(rest, " from ") || strings.Contains(rest, ","))
}

// skipVersion passes what begins or ends a conditional comment of MySQL.
func skipVersion(text string) string {
	return skipSpace(strings.TrimLeft(strings.TrimPrefix(text, "!"), "0123456789"))
}

// isStacked: a statement after the end of another.
func isStacked(text string, begin, end int) bool {
	if before(text, begin) != ';' {
		return false
	}
	rest := skipSpace(window(text, end))
	for _, word := range [...]string{"table", "database", "from", "into", "@", "xp_", "sp_", "pg_", "case", "user", "schema", "("} {
		if hasPrefixFold(rest, word) && (!isLetter(word[0]) || strings.HasSuffix(word, "_") || len(rest) > len(word)) {
			return true
		}
	}
	return containsFold(rest, " set ") && strings.IndexByte(rest, '=') > 0
}

// hasOption: a dash or slash follows.
func hasOption(text string, _, end int) bool {
	rest := strings.TrimPrefix(window(text, end), ".exe")
	option := strings.TrimLeft(rest, " ")
	return len(option) > 1 && len(option) < len(rest) && (option[0] == '-' || option[0] == '/') && isLetter(option[1])
}

// isCommand: a command where a shell begins one, and what follows one.
func isCommand(text string, begin, end int) bool {
	for begin > 0 && (isWord(text[begin-1]) || text[begin-1] == '/') { // its path
		begin--
	}
	rest := window(text, end)
	switch before(text, begin) {
	case '`':
		return strings.IndexByte(rest, '`') >= 0
	case '(':
		return begin > 1 && text[begin-2] == '$' || begin > 0 && text[begin-1] == '(' && strings.Contains(text[max(0, begin-3):begin], "$(")
	case ';', '|', '&', '\n':
		return isArgument(rest) && (strings.TrimSpace(rest) != "" || !strings.Contains(everyday, " "+strings.ToLower(text[begin:end])+" "))
	}
	return begin == 0 && isShell(text[begin:end]) && hasOption(text, begin, end)
}

// everyday are commands that are words as well, and need an argument to be taken for one.
const everyday = " cat cut dir dig export expr fetch find head java kill less more mount move net node od passwd route ruby set sleep sort strings tail touch type which who "

// isShell reports whether a command runs others.
func isShell(name string) bool {
	switch strings.ToLower(name) {
	case "bash", "sh", "zsh", "ksh", "nc", "ncat", "netcat":
		return true
	}
	return false
}

// isArgument reports whether rest is what a command is given, or nothing.
func isArgument(rest string) bool {
	trimmed := skipSpace(rest)
	if trimmed == "" {
		return true
	}
	if len(trimmed) == len(rest) {
		return strings.IndexByte(";|&`)<>#", rest[0]) >= 0
	}
	return strings.IndexByte("-/$~<>|&;'\"`#", trimmed[0]) >= 0 && !strings.HasPrefix(trimmed, "- ") || hasPrefixFold(trimmed, "http") ||
		isDigit(trimmed[0]) && strings.Count(trimmed, ".") >= 3 || isDigit(trimmed[0]) && strings.Trim(trimmed, "0123456789") == ""
}

// climbs: more than one step up, or one step up to what no relative link leads to.
func climbs(text string, begin, end int) bool {
	rest := window(text, end)
	return strings.Contains(rest, "..") && strings.ContainsAny(rest, `/\%`) || begin > 0 && strings.ContainsAny(text[begin-1:begin], `/\`) && begin+3 < len(text) && strings.Contains(rest, "etc")
}

// imports: a style that fetches another.
func imports(text string, _, end int) bool { return containsFold(window(text, end), "@import") }

// isFunction: code follows.
func isFunction(text string, _, end int) bool {
	return containsFold(window(text, end), "function") || containsFold(window(text, end), "this.")
}

// isForeignFile: a value that is a URL of a bare address and of a script.
func isForeignFile(text string, begin, end int) bool {
	host, path, _ := strings.Cut(window(text, end), "/")
	isAddress := strings.Count(host, ".") == 3 && strings.Trim(host, "0123456789.:") == ""
	return begin == 0 && isAddress && (strings.HasSuffix(path, "?") || strings.HasSuffix(path, ".txt") || strings.HasSuffix(path, ".php") || strings.HasSuffix(path, ".sh"))
}

// containsFold reports whether word, in lower case, is in a short text in any case.
func containsFold(text, word string) bool { return strings.Contains(strings.ToLower(text), word) }
