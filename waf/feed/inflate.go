package feed

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// maxRatio is how many times longer a compressed body may become. Bodies that stay below freeInflated
// bytes may be any times longer.
const (
	maxRatio     = 100
	freeInflated = 64 << 10
)

var (
	badCoding   = &Refusal{"content_encoding", http.StatusUnsupportedMediaType, "not one that is inspected"}
	tooInflated = &Refusal{"max_inflated", http.StatusRequestEntityTooLarge, "the compressed body is too long"}
	tooDense    = &Refusal{"inflate_ratio", http.StatusRequestEntityTooLarge, "the body is compressed too far"}
	badInflate  = &Refusal{"content_encoding", http.StatusBadRequest, "the compressed body is broken"}
)

// inflate returns the body in the clear. gzip and deflate are known; a binary body under another coding
// is left as it is, since it is not read.
func inflate(src *Source, m media, limit int) (string, *Refusal) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(src.Header["Content-Encoding"], ",")))
	switch coding {
	case "", "identity":
		return string(src.Body), nil
	case "gzip", "x-gzip", "deflate":
	default:
		if m.kind == Binary {
			return "", nil
		}
		return "", badCoding
	}
	r, err := inflater(coding, src.Body)
	if err != nil {
		return "", badInflate
	}
	return readBounded(r, len(src.Body), limit)
}

func inflater(coding string, body []byte) (io.Reader, error) {
	in := bytes.NewReader(body)
	if coding != "deflate" {
		return gzip.NewReader(in)
	}
	// What is called deflate is zlib (RFC 9110 section 8.4.1.2), and with some senders bare deflate.
	if r, err := zlib.NewReader(in); err == nil {
		return r, nil
	}
	return flate.NewReader(bytes.NewReader(body)), nil
}

// readBounded reads r up to limit and to maxRatio times size, and never more than a buffer past either.
func readBounded(r io.Reader, size, limit int) (string, *Refusal) {
	allowed := min(limit, max(freeInflated, size*maxRatio))
	var out strings.Builder
	n, err := io.Copy(&out, io.LimitReader(r, int64(allowed)+1))
	switch {
	case n > int64(limit):
		return "", tooInflated
	case n > int64(allowed):
		return "", tooDense
	case err != nil:
		return "", badInflate
	}
	return out.String(), nil
}
