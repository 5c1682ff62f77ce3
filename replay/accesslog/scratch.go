package accesslog

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"time"

	"github.com/weirgate/weir"
)

// A scratch holds what was found in a line until it makes sense as a whole.
type scratch struct {
	clock  clock
	escape escape

	start, end     int64
	started, ended bool
	took           time.Duration
	client, from   netip.Addr
	chain          string
	method, target string
	query, host    string
	noRequest      bool
	status         int
	header         http.Header
}

func (s *scratch) reset() {
	*s = scratch{clock: s.clock, escape: s.escape, took: Unknown}
}

// A field is what a part of a line means.
type field uint8

const (
	skip       field = iota
	client           // an address, with or without a port
	clientPort       // an address, a colon and a port, IPv6 without brackets
	from             // who connected to the server that wrote the line
	chain            // X-Forwarded-For as passed on
	end              // when the request ended
	start            // when it began
	seconds          // durations, by their unit
	millis
	micros
	nanos
	timers  // HAProxy's TR/Tw/Tc/Tr/Ta
	latency // a number of seconds and the letter s
	request // METHOD TARGET PROTOCOL
	method
	target // a path with its query, or a URL
	query
	host
	status
	size   // a number of bytes, or -
	header // one of the request's
)

// names are the fields that a custom format may name.
var names = map[string]field{
	"-": skip, "client": client, "client_port": clientPort, "from": from, "chain": chain, "time": end, "end": end, "start": start,
	"duration": seconds, "duration_ms": millis, "duration_us": micros, "duration_ns": nanos, "latency": latency, "timers": timers, "request": request, "method": method,
	"path": target, "url": target, "query": query, "host": host, "status": status, "bytes": size,
}

var (
	errStatus  = errors.New("no HTTP status where one should be")
	errSize    = errors.New("no number of bytes where one should be")
	errAddress = errors.New("no address where the client's should be")
	errTimers  = errors.New("no timers where HAProxy's should be")
)

// set takes one field's text. A hyphen alone stands for nothing.
func (s *scratch) set(f field, text string) (err error) {
	if f == skip {
		return nil
	}
	if text == "-" || text == "" {
		s.noRequest = s.noRequest || f == request || f == method
		return nil
	}
	switch f {
	case client, clientPort:
		s.client, err = address(text, f == clientPort)
	case from:
		s.from, err = address(text, false)
	case chain:
		s.chain = text
	case end:
		s.end, err = s.clock.read(text)
		s.ended = true
	case start:
		s.start, err = s.clock.read(text)
		s.started = true
	case size:
		err = isSize(text)
	case status:
		err = s.setStatus(text)
	case query:
		s.query = text
	case host:
		s.host = s.escape.undo(text)
	case method:
		s.method = text
	case target:
		s.target = s.escape.undo(text)
	case request:
		s.setRequest(s.escape.undo(text))
	default:
		err = s.setDuration(f, text)
	}
	return err
}

func (s *scratch) setDuration(f field, text string) (err error) {
	switch f {
	case seconds:
		s.took, err = duration(text, time.Second)
	case latency:
		s.took, err = duration(strings.TrimSuffix(text, "s"), time.Second)
	case millis:
		s.took, err = duration(text, time.Millisecond)
	case micros:
		s.took, err = duration(text, time.Microsecond)
	case nanos:
		s.took, err = duration(text, 1)
	case timers:
		at := strings.LastIndexByte(text, '/')
		if strings.Count(text, "/") != 4 {
			return errTimers
		}
		if total := strings.TrimPrefix(text[at+1:], "+"); total != "-1" {
			s.took, err = duration(total, time.Millisecond)
		}
	}
	return err
}

func (s *scratch) setStatus(text string) error {
	n, ok := number(text, 0, 999)
	if !ok && text != "-1" { // HAProxy's, where nothing was answered
		return errStatus
	}
	s.status = n
	return nil
}

func isSize(text string) error {
	for i := range len(text) {
		if text[i]-'0' > 9 && (i > 0 || text[i] != '+') { // HAProxy writes a plus before what is not all
			return errSize
		}
	}
	return nil
}

// setHeader takes a header that the log has, under its canonical name.
func (s *scratch) setHeader(name, value string) {
	if value == "-" || value == "" {
		return
	}
	if s.header == nil {
		s.header = http.Header{}
	}
	s.header[name] = append(s.header[name], value)
}

// setRequest takes METHOD TARGET PROTOCOL (RFC 9112 section 3), where the protocol may be missing.
func (s *scratch) setRequest(line string) {
	verb, rest, ok := strings.Cut(line, " ")
	if at := strings.LastIndex(rest, " HTTP/"); at >= 0 {
		rest = rest[:at]
	}
	if !ok || !isMethod(verb) || rest == "" {
		s.noRequest = true
		return
	}
	s.method, s.target = verb, rest
}

// isMethod reports whether a request line can begin so. Letters are enough for what is in use.
func isMethod(verb string) bool {
	for i := range len(verb) {
		if c := verb[i]; (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return verb != "" && verb != "-"
}

// address reads an address with or without a port. What is no address and may stand there, such as
// the unix: of nginx, is none.
func address(text string, lastColon bool) (netip.Addr, error) {
	if strings.HasPrefix(text, "unix") {
		return netip.Addr{}, nil
	}
	if at := strings.LastIndexByte(text, ':'); at >= 0 && (lastColon || strings.IndexByte(text, ':') == at || text[at-min(at, 1)] == ']') {
		text = text[:at]
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}, errAddress
	}
	return weir.Canonical(a), nil
}

// finish makes a line of what was found.
func (s *scratch) finish(l *Line) error {
	if s.noRequest || s.method == "" || s.target == "" {
		return ErrNoRequest
	}
	at, took, ok := s.times()
	if !ok {
		return errTime
	}
	*l = Line{
		At: at, Took: took, Client: s.client, From: s.from, Chain: s.chain,
		Method: s.method, Path: s.target, Query: s.query, Host: s.host, Status: s.status, Header: s.header,
	}
	if at := strings.LastIndexByte(l.Chain, ',') + 1; l.Chain != "" && !l.Client.IsValid() && !l.From.IsValid() {
		l.From, _ = address(strings.TrimSpace(l.Chain[at:]), false) // what is no address is none
	}
	if !l.From.IsValid() {
		l.From = l.Client
	} else if !l.Client.IsValid() {
		l.Client = l.From
	}
	l.splitTarget()
	return nil
}

// times returns when the request began and how long it took.
func (s *scratch) times() (at int64, took time.Duration, ok bool) {
	switch {
	case s.started && s.ended && s.took == Unknown && s.end >= s.start:
		return s.start, time.Duration(s.end - s.start), true
	case s.started:
		return s.start, s.took, true
	case s.ended && s.took > 0:
		return s.end - int64(s.took), s.took, true
	}
	return s.end, s.took, s.ended
}

// splitTarget makes path, query and host of a request target (RFC 9112 section 3.2).
func (l *Line) splitTarget() {
	if l.Path[0] != '/' {
		if _, rest, ok := strings.Cut(l.Path, "://"); ok {
			at := strings.IndexAny(rest, "/?")
			if at < 0 {
				at = len(rest)
			}
			l.Host, l.Path = cmp.Or(l.Host, rest[:at]), rest[at:]
		}
	}
	if at := strings.IndexByte(l.Path, '?'); at >= 0 {
		l.Path, l.Query = l.Path[:at], l.Path[at+1:]
	}
	if l.Path == "" {
		l.Path = "/"
	}
}

// canonical is a header's name as net/http has it.
func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
