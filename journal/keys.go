package journal

import (
	"net/netip"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/topk"
)

// A client among the talkers is written in a few bytes: its network, or where its resolution ended. They
// identify it; a last byte says how it was found.
const (
	identityBytes = 18
	clientBytes   = identityBytes + 1
)

const (
	keyAddress = iota // an IPv4 or IPv6 network
	keyUnresolved
	keyUnix
	keyNone
)

func appendClient(b []byte, c *weir.Client) []byte {
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
	b = append(b, kind)
	sixteen := addr.As16() // zero if there is none
	b = append(b, sixteen[:]...)
	return append(b, bits, byte(c.Source))
}

// readClient returns the client that appendClient wrote.
func readClient(key string) weir.Client {
	if len(key) <= identityBytes {
		return weir.Client{}
	}
	c := weir.Client{Source: weir.Source(key[identityBytes])}
	addr := netip.AddrFrom16([16]byte([]byte(key[1:17]))).Unmap()
	switch key[0] {
	case keyAddress:
		c.Prefix = netip.PrefixFrom(addr, int(key[17]))
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

// appendFolded appends the group of a path: its first 4 segments, where * stands for a segment that names
// one thing: a number, more than 2 digits, more than 24 bytes, or bytes that are no words of a program's.
// It appends at most [topk.KeyBytes].
func appendFolded(b []byte, path string) []byte {
	for segments := 0; len(path) > 0; segments++ {
		if path[0] == '/' {
			path = path[1:]
		}
		n, named := segment(path)
		switch {
		case segments == mostSegments, len(b)+1+n > topk.KeyBytes-2:
			return append(b, "/*"...)
		case named:
			b = append(b, "/*"...)
		default:
			b = append(append(b, '/'), path[:n]...)
		}
		path = path[n:]
	}
	return b
}

// segment returns the length of the segment that path begins with, and whether it names one thing.
func segment(path string) (n int, named bool) {
	digits, letters, odd := 0, 0, false
	for n < len(path) && path[n] != '/' {
		switch c := path[n]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			letters++
		case '0' <= c && c <= '9':
			digits++
		case c == '-', c == '_', c == '.', c == '~':
		default:
			odd = true
		}
		n++
	}
	return n, odd || n > mostLetters || digits > mostDigits || digits > 0 && letters == 0
}
