package waf

import "strings"

// callbacks begin the address of a program on the asker's own machine (RFC 8252 sections 7.3 and 8.3).
var callbacks = [...]string{"http://127.0.0.1:", "http://[::1]:", "http://localhost:"}

// OwnCallback reports whether what stands in text from at on, in a parameter of that name, tells an authorization
// server where a program on the asker's own machine listens. It is the asker's browser that is sent there.
func OwnCallback(name, text string, at int) bool {
	uri, begins := text[at:], false
	for _, c := range callbacks {
		begins = begins || strings.HasPrefix(uri, c)
	}
	if !begins {
		return false
	}
	switch name[strings.LastIndexByte(name, '/')+1:] {
	case "redirect_uri", "redirect_uris", "post_logout_redirect_uri", "post_logout_redirect_uris":
		return at == 0
	}
	return strings.HasSuffix(text[:at], "redirect_uri=") // the way back to it after a login
}
