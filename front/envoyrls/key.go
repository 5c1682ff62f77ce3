package envoyrls

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

const (
	// longestKey is how many bytes of entries a store key of Compat holds as they are. Envoy's headers, from
	// which values come, have 60 KiB together. Of more a hash stands for them.
	longestKey = 4096
	// longestTag is the same for Own, whose keys are shared with nobody.
	longestTag = 128
)

// A keyed is what a counter is kept for.
type keyed struct {
	domain  string
	entries []descriptors.Entry
	limit   *weir.Limit
	at      time.Time
}

// appendKey appends the key of a counter, and returns how many bytes of it are its tag.
func (s *Server) appendKey(b []byte, k keyed) ([]byte, int) {
	if s.options.Counting == Own {
		return appendOwnKey(b, k)
	}
	return appendCompatKey(b, s.options.Settings.KeyPrefix, k), 0
}

// appendCompatKey appends the name of envoyproxy/ratelimit's counter:
//
//	PREFIX DOMAIN_ KEY_VALUE_ … START
//
// START being when the window began, in Unix seconds.
func appendCompatKey(b []byte, prefix string, k keyed) []byte {
	b = append(b, prefix...)
	from := len(b)
	b = append(append(b, k.domain...), '_')
	for _, e := range k.entries {
		b = append(append(b, e.Key...), '_')
		b = append(append(b, e.Value...), '_')
	}
	if len(b)-from > longestKey {
		b = append(appendHash(b[:from], b[from:]), '_')
	}
	window := max(1, int64(k.limit.Window/time.Second))
	now := k.at.Unix()
	return strconv.AppendInt(b, now-now%window, 10)
}

// appendHash appends a hash of text, which may lie behind b in its memory.
func appendHash(b, text []byte) []byte {
	sum := sha256.Sum256(text)
	b = append(b, "sha256:"...)
	return hex.AppendEncode(b, sum[:])
}

// appendOwnKey appends the key of one of Weir's counters:
//
//	{rls:LENGTH:DOMAIN LENGTH:KEY LENGTH:VALUE …}:ALGORITHM:WINDOW
//
// without the blanks. Lengths are in bytes, so that no value can imitate another tuple. What is long, or
// would end the tag, is replaced by its hash.
func appendOwnKey(b []byte, k keyed) (_ []byte, tag int) {
	start := len(b)
	b = append(b, "{rls:"...)
	from := len(b)
	b = appendCounted(b, k.domain)
	for _, e := range k.entries {
		b = appendCounted(appendCounted(b, e.Key), e.Value)
	}
	if text := b[from:]; len(text) > longestTag || bytes.IndexByte(text, '}') >= 0 {
		b = appendHash(b[:from], text)
	}
	b = append(b, '}')
	tag = len(b) - start
	b = append(append(b, ':'), k.limit.Algorithm.String()...)
	return strconv.AppendInt(append(b, ':'), int64(k.limit.Window), 10), tag
}

func appendCounted(b []byte, text string) []byte {
	b = strconv.AppendInt(b, int64(len(text)), 10)
	return append(append(b, ':'), text...)
}
