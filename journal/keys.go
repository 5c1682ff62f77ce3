package journal

import (
	"net/netip"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/topk"
)

// A clientKey is a client in a few bytes: its network, or where its resolution ended. They identify it; the last
// byte says how it was found.
type clientKey [19]byte

const (
	keyAddress = iota // an IPv4 or IPv6 network
	keyUnresolved
	keyUnix
	keyNone
)

func (k *clientKey) write(c *weir.Client) {
	addr, kind, bits := c.Prefix.Addr(), byte(keyAddress), byte(c.Prefix.Bits())
	if c.Source == weir.Unresolved {
		addr, kind, bits = c.Via, keyUnresolved, 0
		switch {
		case c.ViaUnix:
			kind = keyUnix
		case !c.Via.IsValid():
			kind = keyNone
		}
	}
	k[0], k[17], k[18] = kind, bits, byte(c.Source)
	*(*[16]byte)(k[1:17]) = addr.As16() // zero if there is none
}

// read returns the client that was written.
func (k *clientKey) read() weir.Client {
	c := weir.Client{Source: weir.Source(k[18])}
	addr := netip.AddrFrom16([16]byte(k[1:17])).Unmap()
	switch k[0] {
	case keyAddress:
		c.Prefix = netip.PrefixFrom(addr, int(k[17]))
	case keyUnresolved:
		c.Via = addr
	case keyUnix:
		c.ViaUnix = true
	}
	return c
}

const (
	mostSegments = 4  // of a path are told apart
	mostLetters  = 24 // of a segment; what is longer names one thing
	mostDigits   = 2  // likewise
)

// appendFolded appends the group of a path to b, which is empty: its first 4 segments, where * stands for a segment that
// names one thing: a number, more than 2 digits, more than 24 bytes, or bytes that are no words of a program's.
// It appends at most [topk.KeyBytes].
func appendFolded(b []byte, path string) []byte {
	if path != "" && path[0] != '/' {
		b = append(b, '/')
	}
	from, at := 0, 0 // path[from:at] stays as it is
	for segments := 0; at < len(path); segments++ {
		slash := 0
		if path[at] == '/' {
			slash = 1
		}
		n, named := segment(path[at+slash:])
		end := at + slash + n
		full := segments == mostSegments || len(b)+end-from > topk.KeyBytes-2
		if full || named {
			b = append(append(b, path[from:at]...), "/*"[1-slash:]...)
			from = end
		}
		if full {
			return b
		}
		at = end
	}
	return append(b, path[from:]...)
}

// segment returns the length of the segment that path begins with, and whether it names one thing.
func segment(path string) (n int, named bool) {
	head, seen := path[:min(len(path), mostLetters+1)], letters(0)
	n = len(head)
	for i := range len(head) {
		c := head[i]
		if c == '/' {
			n = i
			break
		}
		seen += letterOf[c]
	}
	if n > mostLetters {
		if end := strings.IndexByte(path[n:], '/'); end >= 0 {
			return n + end, true
		}
		return len(path), true
	}
	digits := seen / digit % odd
	return n, seen >= odd || digits > mostDigits || digits > 0 && seen%digit == 0
}

// letters are how many of each kind there are in at most mostLetters + 1 bytes.
type letters uint32

const (
	letter letters = 1
	digit  letters = 1 << 8
	odd    letters = 1 << 16 // no word of a program has it
)

// letterOf is what each byte counts.
var letterOf = func() (of [256]letters) {
	for i := range of {
		switch c := byte(i); {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			of[i] = letter
		case '0' <= c && c <= '9':
			of[i] = digit
		case c == '-', c == '_', c == '.', c == '~':
		default:
			of[i] = odd
		}
	}
	return of
}()
