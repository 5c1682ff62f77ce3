package feed

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// A media is what a content type says about a body.
type media struct {
	kind     Kind
	boundary string // multipart
}

// twoFaced are the parameters that a body has two readings without.
var twoFaced = NewWords("charset", "boundary")

// charsets are the names of those whose ASCII bytes are ASCII, in lower case.
var charsets = [...]string{"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin1", "windows-1252"}

// parseMedia reads the lines of Content-Type. There may be one; where what it says of charset or
// boundary has two readings, the body has.
func parseMedia(lines []string) (media, *Refusal) {
	if len(lines) == 0 {
		return media{kind: TextBody}, nil
	}
	if len(lines) > 1 {
		return media{}, &Refusal{"content_type", http.StatusBadRequest, "said more than once"}
	}
	name, params, err := mime.ParseMediaType(lines[0])
	isMalformed := err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter)
	if isMalformed || err != nil && twoFaced.In(lines[0]) {
		return media{}, &Refusal{"content_type", http.StatusUnsupportedMediaType, "cannot be read"}
	}
	kind := kindOf(name)
	if charset := params["charset"]; charset != "" && kind != Binary && !isKnownCharset(charset) { // file(1) says charset=binary
		return media{}, badCharset
	}
	return media{kind: kind, boundary: params["boundary"]}, nil
}

var badCharset = &Refusal{"charset", http.StatusUnsupportedMediaType, "not one that is inspected"}

func isKnownCharset(name string) bool {
	return slices.Contains(charsets[:], strings.ToLower(strings.Trim(name, `"' `)))
}

// kindOf returns how a body of a media type is read. An unknown type is text until its bytes say that it
// is not.
func kindOf(name string) Kind {
	top, sub, _ := strings.Cut(name, "/")
	switch {
	case name == "application/x-www-form-urlencoded":
		return FormBody
	case top == "multipart":
		return MultiBody
	case name == "application/graphql":
		return GraphBody
	case strings.HasSuffix(sub, "ndjson"), strings.HasSuffix(sub, "jsonl"), strings.HasSuffix(sub, "jsonlines"), strings.HasSuffix(sub, "json-seq"), sub == "stream+json":
		return JSONLines
	case strings.HasSuffix(sub, "json"):
		return JSONBody
	case sub == "xml" || strings.HasSuffix(sub, "+xml"):
		return XMLBody
	case isBinary(top, sub):
		return Binary
	}
	return TextBody
}

// binaries are the subtypes of application that hold bytes.
var binaries = [...]string{"octet-stream", "protobuf", "x-protobuf", "vnd.google.protobuf", "msgpack", "x-msgpack", "vnd.msgpack", "cbor", "pdf", "zip", "gzip",
	"x-gzip", "x-tar", "zstd", "wasm", "avro", "x-7z-compressed", "vnd.rar", "vnd.apache.parquet", "x-thrift", "connect+proto"}

func isBinary(top, sub string) bool {
	switch top {
	case "image", "audio", "video", "font", "model":
		return true
	case "application":
		return strings.HasPrefix(sub, "grpc") || strings.HasSuffix(sub, "+proto") || strings.HasSuffix(sub, "+cbor") || strings.HasSuffix(sub, "+protobuf") ||
			strings.HasPrefix(sub, "vnd.openxmlformats") || slices.Contains(binaries[:], sub)
	}
	return false
}
