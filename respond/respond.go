// Package respond writes decisions as HTTP: refusals, rate limit header fields, problem documents, and
// the JSON object that operators read.
package respond

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Options say how answers are written. The zero Options are the defaults.
type Options struct {
	// Headers chooses the rate limit fields: draft (also if empty), legacy, both or off.
	Headers string
	// LegacyReset is what X-RateLimit-Reset counts: delta (also if empty), the seconds from now, or
	// epoch, Unix time.
	LegacyReset string
	// ProblemTypeBase comes before the name of a problem in its type. Empty: the IANA registry.
	ProblemTypeBase string
	// HTML answers askers that prefer it with a page.
	HTML bool
	// Bearer says that tokens or keys are read as Authorization: Bearer.
	Bearer bool
	// KeyHeader is the field that API keys are read from. Empty: none.
	KeyHeader string
	// AllowOrigin is what scripts of other origins may read: *, an origin, or several separated by
	// commas. Empty: nothing.
	AllowOrigin string
}

// A Responder writes answers in the configured form. It is never changed, and safe for concurrent
// use. The zero Responder has the default options.
type Responder struct {
	noDraft  bool
	legacy   bool
	epoch    bool
	html     bool
	typeBase string
	expose   string   // what Access-Control-Expose-Headers says; empty: exposeDraft
	bearer   bool     // tokens are read
	keyField string   // where API keys are read; empty: nowhere
	anyone   bool     // every origin may read
	origins  []string // these may read

	buffers sync.Pool // of *[]byte, each empty
}

// The names of the header fields as net/http keeps them, and as they are written for people.
const (
	fieldPolicy    = "Ratelimit-Policy"
	fieldState     = "Ratelimit"
	fieldLimit     = "X-Ratelimit-Limit"
	fieldRemaining = "X-Ratelimit-Remaining"
	fieldReset     = "X-Ratelimit-Reset"

	exposeDraft  = "Retry-After, RateLimit, RateLimit-Policy"
	exposeLegacy = "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
)

// New returns a responder that follows o.
func New(o Options) *Responder {
	r := &Responder{
		noDraft:  o.Headers == "legacy" || o.Headers == "off",
		legacy:   o.Headers == "legacy" || o.Headers == "both",
		epoch:    o.LegacyReset == "epoch",
		html:     o.HTML,
		typeBase: o.ProblemTypeBase,
		bearer:   o.Bearer,
		keyField: o.KeyHeader,
	}
	switch o.Headers {
	case "legacy":
		r.expose = "Retry-After, " + exposeLegacy
	case "both":
		r.expose = exposeDraft + ", " + exposeLegacy
	case "off":
		r.expose = "Retry-After"
	}
	for _, origin := range strings.Split(o.AllowOrigin, ",") {
		switch origin = strings.TrimSpace(origin); origin {
		case "":
		case "*":
			r.anyone = true
		default:
			r.origins = append(r.origins, origin)
		}
	}
	return r
}

// allow says which origin may read the answer to req: the asker's own if it is configured, also where the
// script asked with cookies (Fetch section 3.3.5), which "*" cannot be for.
func (r *Responder) allow(h http.Header, req *http.Request) {
	if r.anyone {
		h.Set("Access-Control-Allow-Origin", "*")
		return
	}
	if len(r.origins) == 0 {
		return
	}
	vary(h, "Origin")
	if origin := req.Header.Get("Origin"); slices.Contains(r.origins, origin) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// vary adds name to Vary, unless it is there: an answer may take the place of one that was prepared.
func vary(h http.Header, name string) {
	if !slices.Contains(h["Vary"], name) {
		h.Add("Vary", name)
	}
}

// buffer returns an empty buffer, to be given back to done.
func (r *Responder) buffer() *[]byte {
	if b, ok := r.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 1024)
	return &b
}

// done takes back a buffer. One that grew large is left to the collector.
func (r *Responder) done(b *[]byte) {
	if cap(*b) > 16<<10 {
		return
	}
	*b = (*b)[:0]
	r.buffers.Put(b)
}
