package redis

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/weirgate/weir"
)

// slots is how many slots a Cluster has.
const slots = 1 << 14

// hashLength is how many characters, of six bits each, stand for what follows a key's tag: 66 bits.
const hashLength = 11

// counterKey returns the name of the hit's counter in Redis: PREFIX:{TAG}:HASH, the hash being of all
// that follows the tag. So who is counted can be read, and the name of a client's counter has less
// than 48 bytes. A tag that is not one in braces is put into them after its length.
func counterKey(prefix string, h *weir.Hit) string {
	tag, rest := h.Key[:h.TagLen], h.Key[h.TagLen:]
	var room [128]byte
	b := append(room[:0], prefix...)
	b = append(b, ':')
	if isTag(tag) {
		b = append(b, tag...)
	} else {
		b = append(strconv.AppendInt(b, int64(len(tag)), 10), '{')
		b = append(append(b, tag...), '}')
	}
	sum := sha256.Sum256(rest)
	var text [12]byte
	base64.RawURLEncoding.Encode(text[:], sum[:9])
	return string(append(append(b, ':'), text[:hashLength]...))
}

// isTag reports whether Redis Cluster takes all that tag's braces hold, and no more, as a hash tag.
func isTag(tag []byte) bool {
	return len(tag) > 2 && tag[0] == '{' && bytes.IndexByte(tag, '}') == len(tag)-1
}

// slot returns the slot of a key in a Cluster: CRC16 (XMODEM) of its hash tag, or of all of it.
func slot(key string) int {
	if from := strings.IndexByte(key, '{'); from >= 0 {
		if n := strings.IndexByte(key[from+1:], '}'); n > 0 {
			key = key[from+1 : from+1+n]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
