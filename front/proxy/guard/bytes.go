package guard

import "encoding/binary"

// A class is a set of bytes.
type class uint8

const (
	nameByte   class = 1 << iota // tchar, RFC 9110 section 5.6.2
	targetByte                   // visible, or beyond ASCII
	valueByte                    // field-vchar, blank or tab, RFC 9110 section 5.5
)

// classes maps a byte to the sets that it is in.
var classes = func() (t [256]class) {
	for i := range t {
		c := byte(i)
		if c > ' ' && c != 0x7f {
			t[i] |= targetByte | valueByte
		}
	}
	t[' '] |= valueByte
	t['\t'] |= valueByte
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
		t[c] |= nameByte
	}
	return t
}()

// is reports whether c is in the set.
func is(c byte, set class) bool { return classes[c]&set != 0 }

// run returns the first position of p from i on whose byte is not in the set, or len(p).
func run(p []byte, i int, set class) int {
	if set == valueByte { // names and targets are too short to gain
		for i+8 <= len(p) && printable(binary.LittleEndian.Uint64(p[i:])) {
			i += 8
		}
	}
	for i < len(p) && classes[p[i]]&set != 0 {
		i++
	}
	return i
}

// printable reports whether no byte of x is a control character: below 0x20 or 0x7f. A subtraction
// borrows into the highest bit of a byte that is too small.
func printable(x uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	del := x ^ each*0x7f
	return ((x-each*0x20)&^x|(del-each)&^del)&high == 0
}

// lower returns the lower case of an ASCII letter, and any other byte as it is.
func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// hex returns the value of a hexadecimal digit.
func hex(c byte) (int64, bool) {
	switch c = lower(c); {
	case c >= '0' && c <= '9':
		return int64(c - '0'), true
	case c >= 'a' && c <= 'f':
		return int64(c-'a') + 10, true
	}
	return 0, false
}
