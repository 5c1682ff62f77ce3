package guard

// A framing follows the framing of the requests in one direction of a connection. It sees the bytes
// as they come, in pieces of any size, and keeps none of them.
type framing struct {
	state  state
	fault  Fault
	max    int // bounds size
	size   int // bytes of the header, or of the trailer section, so far
	fields int // its field lines so far

	// begin is where, in the piece at hand, the request begins that is being read; 0 if it began in an
	// earlier one. inBody tells whether its header had ended in an earlier piece.
	begin  int
	inBody bool

	seen    int    // how much of preface, httpVersion, name or chunkedCoding has been matched
	name    string // the framing field that the name at hand may still become, or empty
	old     bool   // HTTP/1.0
	length  bool   // a Content-Length was seen
	coding  bool   // a Transfer-Encoding was seen
	trailer bool   // the field lines at hand follow the last chunk
	digits  int    // of the number at hand
	remain  int64  // that number, then the bytes of the body or chunk that are still to come
}

type state uint8

const (
	atPreface state = iota // the connection's first bytes, as long as they are those of HTTP/2
	atStart
	inMethod
	inTarget
	inVersion
	afterLine // a CR was read, its LF is to come
	atField
	inName
	inValue
	atLength
	inLength
	atCoding
	inCoding
	atEnd // the CR of the empty line was read
	inData
	atChunk
	inChunkSize
	inExtension
	afterChunkSize
	inChunk
	afterChunk
	atChunkEnd
	isHTTP2 // nothing is followed any more
)

const (
	preface          = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113 section 3.4
	httpVersion      = "HTTP/1."
	contentLength    = "content-length"
	transferEncoding = "transfer-encoding"
	chunkedCoding    = "chunked"

	maxFields     = 500 // field lines of a header
	maxDigits     = 18  // of a length: below 2^63 in decimal
	maxHexDigits  = 15  // of a chunk's size: below 2^60
	maxExtensions = 256 // bytes of a chunk's extensions
)

// scan follows p and returns how many of its bytes may be handed on: all of them, unless it finds a
// fault. Then these are the bytes before the request at fault, or before the fault if the request's
// header has been handed on already.
func (f *framing) scan(p []byte) int {
	f.begin, f.inBody = 0, f.state.body() || f.trailer
	for i := 0; i < len(p); {
		counted := !f.state.body()
		j := f.step(p, i)
		if counted {
			f.size += j - i
		}
		if f.size > f.max && f.fault == None {
			f.fault = HeaderTooLarge
		}
		if f.fault != None {
			if f.inBody {
				return i
			}
			return f.begin
		}
		i = j
	}
	return len(p)
}

// idle reports whether no request is being read.
func (f *framing) idle() bool { return f.state == atStart || f.state == atPreface && f.seen == 0 }

// inHeader reports whether a header has begun and not ended.
func (f *framing) inHeader() bool { return !f.idle() && !f.state.body() && !f.trailer }

// body reports whether the bytes at hand are not bounded as a header.
func (s state) body() bool { return s >= inData }

// step takes p from i as far as one state reaches, and returns where the next begins.
func (f *framing) step(p []byte, i int) int {
	switch f.state {
	case atPreface:
		return f.matchPreface(p, i)
	case atStart, inMethod, inTarget, inVersion:
		return f.requestLine(p, i)
	case afterLine:
		return f.expect(p[i], '\n', i, atField, BareCR)
	case atField, inName:
		return f.field(p, i)
	case inValue:
		return f.value(p, i)
	case atLength, inLength:
		return f.lengthValue(p[i], i)
	case atCoding, inCoding:
		return f.codingValue(p[i], i)
	case atEnd:
		return f.end(p, i)
	case inData, inChunk:
		return f.skip(p, i)
	case isHTTP2:
		return len(p)
	}
	return f.chunk(p[i], i)
}

// fail notes a fault at i.
func (f *framing) fail(why Fault, i int) int {
	f.fault = why
	return i
}

// expect wants the byte c at i, and goes on with next.
func (f *framing) expect(got, want byte, i int, next state, otherwise Fault) int {
	if got != want {
		return f.fail(otherwise, i)
	}
	f.state = next
	return i + 1
}

// matchPreface compares a connection's first bytes with the preface of HTTP/2. When they part, what
// they had in common is the beginning of an HTTP/1 request.
func (f *framing) matchPreface(p []byte, i int) int {
	if p[i] == preface[f.seen] {
		f.seen++
		if f.seen == len(preface) {
			f.state, f.begin = isHTTP2, i+1
		}
		return i + 1
	}
	common := preface[:f.seen]
	f.start()
	f.size = len(common)
	for j := 0; j < len(common) && f.fault == None; {
		j = f.step([]byte(common), j)
	}
	return i
}

// start begins a request.
func (f *framing) start() {
	*f = framing{state: atStart, max: f.max, fault: f.fault, begin: f.begin, inBody: f.inBody}
}

// requestLine reads METHOD SP TARGET SP HTTP/1.x CR (RFC 9112 section 3), with nothing left out and
// nothing doubled.
func (f *framing) requestLine(p []byte, i int) int {
	switch f.state {
	case atStart:
		if !is(p[i], nameByte) {
			return f.fail(BadRequestLine, i)
		}
		f.state = inMethod
	case inMethod:
		i = run(p, i, nameByte)
		if i < len(p) {
			return f.expect(p[i], ' ', i, inTarget, BadRequestLine)
		}
	case inTarget:
		from := i
		i = run(p, i, targetByte)
		f.seen += i - from
		if i < len(p) {
			return f.endTarget(p[i], i)
		}
	case inVersion:
		return f.version(p[i], i)
	}
	return i
}

// endTarget reads the space after the target, which is not empty.
func (f *framing) endTarget(c byte, i int) int {
	if f.seen == 0 {
		return f.fail(BadRequestLine, i)
	}
	f.seen = 0
	return f.expect(c, ' ', i, inVersion, BadRequestLine)
}

// version reads one byte of the version or the CR after it.
func (f *framing) version(c byte, i int) int {
	switch {
	case f.seen < len(httpVersion) && c == httpVersion[f.seen]:
	case f.seen == len(httpVersion) && (c == '0' || c == '1'):
		f.old = c == '0'
	case f.seen == len(httpVersion)+1 && c == '\r':
		f.state = afterLine
	case f.seen == len(httpVersion)+1 && c == '\n':
		return f.fail(BareLF, i)
	default:
		return f.fail(BadRequestLine, i)
	}
	f.seen++
	return i + 1
}

// field reads the name of a field and its colon (RFC 9112 section 5), or the CR of the empty line.
func (f *framing) field(p []byte, i int) int {
	if f.state == atField {
		return f.startField(p[i], i)
	}
	for ; i < len(p) && f.name != ""; i++ {
		if f.seen == len(f.name) || lower(p[i]) != f.name[f.seen] {
			break
		}
		f.seen++
	}
	if i == len(p) {
		return i
	}
	if is(p[i], nameByte) {
		f.name = "" // it is longer, or another
		return run(p, i, nameByte)
	}
	if f.name != "" && f.seen < len(f.name) {
		f.name = "" // it is shorter
	}
	return f.endName(p[i], i)
}

// startField looks at the first byte of a line.
func (f *framing) startField(c byte, i int) int {
	f.name, f.seen, f.digits = "", 0, 0
	switch {
	case c == '\r':
		f.state = atEnd
		return i + 1
	case c == '\n':
		return f.fail(BareLF, i)
	case c == ' ' || c == '\t':
		return f.fail(Folded, i)
	case lower(c) == 'c':
		f.name = contentLength
	case lower(c) == 't':
		f.name = transferEncoding
	case !is(c, nameByte):
		return f.fail(BadFieldName, i)
	}
	if f.fields++; f.fields > maxFields {
		return f.fail(HeaderTooLarge, i)
	}
	f.state = inName
	return i
}

// endName reads the colon and turns to the value.
func (f *framing) endName(c byte, i int) int {
	next := inValue
	switch {
	case c != ':':
		return f.fail(BadFieldName, i)
	case f.name != "" && f.trailer:
		return f.fail(FramingInTrailer, i)
	case f.name == contentLength && f.length:
		return f.fail(RepeatedLength, i)
	case f.name == transferEncoding && f.coding:
		return f.fail(RepeatedCoding, i)
	case f.name == contentLength:
		f.length, next = true, atLength
	case f.name == transferEncoding:
		f.coding, next = true, atCoding
	}
	f.state, f.seen = next, 0
	return i + 1
}

// value reads a field's value up to its CR.
func (f *framing) value(p []byte, i int) int {
	i = run(p, i, valueByte)
	if i == len(p) {
		return i
	}
	return f.endValue(p[i], i, BadFieldValue)
}

// endValue reads the CR that a value ends with.
func (f *framing) endValue(c byte, i int, otherwise Fault) int {
	if c == '\n' {
		return f.fail(BareLF, i)
	}
	return f.expect(c, '\r', i, afterLine, otherwise)
}

// lengthValue reads one byte of Content-Length: digits, after blanks only.
func (f *framing) lengthValue(c byte, i int) int {
	switch {
	case f.state == atLength && (c == ' ' || c == '\t'):
		return i + 1
	case c >= '0' && c <= '9' && f.digits < maxDigits:
		f.state = inLength
		f.digits++
		f.remain = f.remain*10 + int64(c-'0')
		return i + 1
	case f.state == atLength:
		return f.fail(BadLength, i)
	}
	return f.endValue(c, i, BadLength)
}

// codingValue reads one byte of Transfer-Encoding: the word chunked, after blanks only. No other
// coding is understood, and a list of them has several readings.
func (f *framing) codingValue(c byte, i int) int {
	switch {
	case f.state == atCoding && (c == ' ' || c == '\t'):
		return i + 1
	case f.seen < len(chunkedCoding) && lower(c) == chunkedCoding[f.seen]:
		f.state = inCoding
		f.seen++
		return i + 1
	case f.seen < len(chunkedCoding):
		return f.fail(BadCoding, i)
	}
	return f.endValue(c, i, BadCoding)
}

// end reads the LF of the empty line and turns to what follows: the body or the next request
// (RFC 9112 section 6.3).
func (f *framing) end(p []byte, i int) int {
	switch {
	case p[i] != '\n':
		return f.fail(BareCR, i)
	case f.coding && f.old:
		return f.fail(CodingInHTTP10, i)
	case f.coding && f.length:
		return f.fail(LengthAndCoding, i)
	case f.size >= f.max:
		return f.fail(HeaderTooLarge, i)
	case f.coding && !f.trailer:
		f.state, f.size, f.remain, f.digits = atChunk, 0, 0, 0
	case f.remain > 0:
		f.state, f.size = inData, 0
	default:
		f.finish(i + 1)
		f.size = -1 // the LF that is being counted belongs to the request before
	}
	return i + 1
}

// finish ends a request whose successor begins at i.
func (f *framing) finish(i int) {
	f.begin, f.inBody = i, false
	f.start()
}

// skip passes over the bytes of a body or chunk.
func (f *framing) skip(p []byte, i int) int {
	n := min(f.remain, int64(len(p)-i))
	f.remain -= n
	switch {
	case f.remain > 0:
	case f.state == inChunk:
		f.state = afterChunk
	default:
		f.finish(i + int(n))
	}
	return i + int(n)
}

// chunk reads one byte of what stands around the chunks (RFC 9112 section 7.1).
func (f *framing) chunk(c byte, i int) int {
	switch f.state {
	case atChunk, inChunkSize:
		return f.chunkSize(c, i)
	case inExtension:
		f.digits++
		if c == '\r' {
			f.state = afterChunkSize
			return i + 1
		}
		if !is(c, valueByte) || f.digits > maxExtensions {
			return f.fail(BadChunk, i)
		}
		return i + 1
	case afterChunkSize:
		return f.startChunk(c, i)
	case afterChunk:
		return f.expect(c, '\r', i, atChunkEnd, BadChunk)
	}
	f.remain, f.digits = 0, 0
	return f.expect(c, '\n', i, atChunk, BadChunk)
}

// chunkSize reads one byte of a chunk's size, or what ends it.
func (f *framing) chunkSize(c byte, i int) int {
	digit, ok := hex(c)
	switch {
	case ok && f.digits < maxHexDigits:
		f.state = inChunkSize
		f.digits++
		f.remain = f.remain<<4 | digit
	case f.state == inChunkSize && c == ';':
		f.state, f.digits = inExtension, 0
	case f.state == inChunkSize && c == '\r':
		f.state = afterChunkSize
	default:
		return f.fail(BadChunk, i)
	}
	return i + 1
}

// startChunk reads the LF after a chunk's size. The last chunk is empty, and trailer fields follow.
func (f *framing) startChunk(c byte, i int) int {
	if c != '\n' {
		return f.fail(BadChunk, i)
	}
	f.state = inChunk
	if f.remain == 0 {
		f.state, f.trailer, f.fields, f.size = atField, true, 0, 0
	}
	return i + 1
}
