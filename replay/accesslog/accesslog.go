// Package accesslog reads the access logs of common proxies: plain, gzip or zstd, line by line, in
// bounded memory.
//
// A [Format] is a row of a table: a pattern with named fields, or the paths of a JSON object's. What a
// log does not have stays empty in a [Line], and [Format.Has] says so before the first line is read.
package accesslog

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// A Line is one request as the log has it. Its texts share memory with a piece of the log, so that
// keeping one of many keeps more than it holds.
type Line struct {
	Number int64 // in its log, from 1
	// At is when the request began, in Unix nanoseconds, as far as the log tells: where it has only
	// the end and no duration, it is the end.
	At   int64
	Took time.Duration // [Unknown] where the log does not tell

	// Client is whom the log calls the client, and From who connected to the server that wrote it;
	// they differ only where the log has both. The zero Addr means that there is none.
	Client, From netip.Addr
	// Chain is X-Forwarded-For as that server passed it on, itself included.
	Chain string

	Method, Path, Query, Host string
	Status                    int // HTTP status; 0 where there is none
	// Header is what the log has of the request's header, under canonical names; nil if nothing.
	Header http.Header
}

// Unknown is the duration of a request that the log does not tell.
const Unknown time.Duration = -1

// ErrNoRequest is what a line says that is in order and about no HTTP request, such as a TLS
// handshake on a plain port.
var ErrNoRequest = errors.New("no HTTP request")

// Has is what a format tells of a request.
type Has struct {
	Host, Duration, Status bool
	Start                  bool // the time of the start stands in the log, or follows from what does
	Chain, Client          bool
	AllHeaders             bool     // of a request, but for those that are blanked
	Headers                []string // canonical names of the headers it has

	seen uint32 // the fields, one bit each
}

// Header reports whether the log has the header of that canonical name.
func (h *Has) Header(name string) bool {
	return h.AllHeaders && !slices.Contains(blanked, name) || slices.Contains(h.Headers, name)
}

// And returns what both formats have.
func (h Has) And(o Has) Has {
	both := Has{
		Host: h.Host && o.Host, Duration: h.Duration && o.Duration, Status: h.Status && o.Status, Start: h.Start && o.Start,
		AllHeaders: h.AllHeaders && o.AllHeaders,
	}
	for _, name := range slices.Concat(h.Headers, o.Headers) {
		if h.Header(name) && o.Header(name) && !slices.Contains(both.Headers, name) {
			both.Headers = append(both.Headers, name)
		}
	}
	return both
}

// blanked are the headers that Caddy replaces by REDACTED.
var blanked = []string{"Authorization", "Cookie", "Proxy-Authorization", "Set-Cookie"}

// A Format is a way to write a request in a line. It is safe for concurrent use.
type Format struct {
	Name  string // for --format
	About string // what writes it
	Has   Has
	read  reading
}

// A reading fills s from a line.
type reading interface {
	read(text string, s *scratch) error
}

// A Parser reads lines of one format. It is for one goroutine.
type Parser struct {
	format  *Format
	scratch scratch
}

// NewParser returns a parser of f for a log whose times without a zone are in zone.
func NewParser(f *Format, zone *time.Location) *Parser {
	return &Parser{format: f, scratch: scratch{clock: clock{zone: zone}}}
}

// Parse reads one line, without its end, into l. [ErrNoRequest] is no fault of the line.
func (p *Parser) Parse(text string, l *Line) error {
	p.scratch.reset()
	if err := p.format.read.read(text, &p.scratch); err != nil {
		return err
	}
	return p.scratch.finish(l)
}
