package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirgate/weir/config"
)

// A token is what a caller bears.
type token string

const (
	adminToken token = "admin"
	readToken  token = "read"
	noToken    token = "loopback" // none is configured
)

// tokens are the sums of the configured tokens; the zero sum stands for none.
type tokens struct {
	admin, read sum
	any         bool
}

type sum [sha256.Size]byte

func newTokens(admin, read config.Secret) tokens {
	t := tokens{any: admin != "" || read != ""}
	if admin != "" {
		t.admin = sha256.Sum256([]byte(admin))
	}
	if read != "" {
		t.read = sha256.Sum256([]byte(read))
	}
	return t
}

// bearer returns the token that r bears, in a time that does not tell how much of it is right.
func (t *tokens) bearer(r *http.Request) (token, bool) {
	if !t.any {
		return noToken, true
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(text))
	isAdmin := subtle.ConstantTimeCompare(got[:], t.admin[:])
	isRead := subtle.ConstantTimeCompare(got[:], t.read[:])
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", false
	case isAdmin == 1:
		return adminToken, true
	}
	return readToken, isRead == 1
}

// admit lets c in if it may read.
func (s *Server) admit(c *call) error {
	who, ok := s.tokens.bearer(c.r)
	if crossSite(c.r) {
		return problem(http.StatusForbidden, "cross_site", "the request was made by a page of another site")
	}
	if wait := s.guessed(c, ok); wait > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		return problem(http.StatusTooManyRequests, "busy", fmt.Sprintf("%d wrong tokens came from this address within a minute: until it is over, a right one is taken only if it has %d characters or more", mostWrong, config.LeastToken))
	}
	switch {
	case !ok:
		return problem(http.StatusUnauthorized, "unauthorized", "a bearer token is required: admin_token or admin_read_token of the configuration")
	case who == noToken && s.o.Local == Anywhere:
		return problem(http.StatusForbidden, "unauthorized", "this address is not loopback, and no admin_token is configured")
	case who == noToken && s.o.Local == Loopback && !namesLoopback(c.r.Host):
		return problem(http.StatusForbidden, "cross_site", "the Host is not this machine: without an admin_token ask for localhost or 127.0.0.1")
	}
	c.who = who
	return nil
}

// mayChange returns why c may change nothing, or nil.
func (s *Server) mayChange(c *call) error {
	if why := s.readOnly(c.who); why != "" {
		return problem(http.StatusForbidden, "read_only", why)
	}
	return nil
}

func (s *Server) readOnly(who token) string {
	if who == readToken {
		return "admin_read_token may only read"
	}
	return ""
}

// crossSite reports whether a browser says that the page of another origin made the request (Fetch
// Metadata, and RFC 6454 for those that do not have that).
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}

// namesLoopback reports whether a Host is this machine by a name that nobody can have in the DNS (RFC
// 6761): with any other one, a page whose name was bound to 127.0.0.1 would be let in.
func namesLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if a, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return a.Unmap().IsLoopback()
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
