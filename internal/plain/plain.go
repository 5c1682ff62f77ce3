// Package plain writes strangers' texts so that a terminal obeys nothing in them, and shows them in the order in
// which they are written.
//
// What is not printable as strconv.IsPrint has it is taken out or escaped: the controls of ASCII and of ECMA-48,
// which UTF-8 bears as U+0080 to U+009F, marks of direction (UAX #9), and characters that nothing is seen of.
package plain

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns a value for one cell of one line: what is not printable is U+FFFD, line breaks and tabs among it.
func Text(value string) string {
	return strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return utf8.RuneError
		}
		return c
	}, value)
}

// Values returns values for a format: texts, errors and what has a String as Text writes them, all else as it is.
func Values(values ...any) []any {
	written := make([]any, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			written[i] = Text(v)
		case error:
			written[i] = Text(v.Error())
		case fmt.Stringer:
			written[i] = Text(v.String())
		default:
			written[i] = v
			if text := reflect.ValueOf(v); text.Kind() == reflect.String {
				written[i] = Text(text.String())
			}
		}
	}
	return written
}

// Lines returns what may be several lines, each as Text writes it.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return strings.Join(lines, "\n")
}

// JSON appends to dst the same JSON (RFC 8259) with what is not printable as \uXXXX. Outside of strings JSON has
// nothing that would be, but for its ASCII white space, which stays. A byte that is no UTF-8 is U+FFFD.
func JSON(dst, text []byte) []byte {
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		whole := c != utf8.RuneError || size > 1
		if c < 0x7f || whole && strconv.IsPrint(c) {
			dst = append(dst, text[:size]...)
		} else {
			for _, unit := range utf16.AppendRune(nil, c) {
				dst = fmt.Appendf(dst, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return dst
}

// JSONTo returns a writer that writes to w as JSON does. No character may be cut in two by its callers, as none is by
// encoding/json and log/slog.
func JSONTo(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(text []byte) (int, error) {
	if _, err := w.to.Write(JSON(make([]byte, 0, len(text)), text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
