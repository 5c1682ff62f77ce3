package journal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"sync/atomic"

	"github.com/weirgate/weir"
)

// Addresses says how the log writes client addresses.
type Addresses string

const (
	// Full writes the client's key as it is counted.
	Full Addresses = "full"
	// Masked writes the client's network: /24 of IPv4, /48 of IPv6. It is the default.
	Masked Addresses = "masked"
	// Hashed writes a keyed hash that is the same for one client until the process ends, and says
	// nothing to anybody who has not the key.
	Hashed Addresses = "hashed"
)

// What is left of a masked address, in bits.
const (
	maskedIPv4 = 24
	maskedIPv6 = 48
)

// hashBytes of the keyed hash are written: enough to tell the clients of one log apart.
const hashBytes = 8

// A masker writes addresses for the log.
type masker struct {
	mode atomic.Pointer[Addresses]
	key  [sha256.Size]byte // of this process, never written anywhere
}

func newMasker(a Addresses) *masker {
	m := new(masker)
	m.set(a)
	rand.Read(m.key[:]) // never fails: see crypto/rand
	return m
}

func (m *masker) set(a Addresses) { m.mode.Store(&a) }

// client returns what the log may say about c.
func (m *masker) client(c *weir.Client) string {
	switch *m.mode.Load() {
	case Full:
		return c.Key()
	case Hashed:
		return m.hash(c)
	}
	masked := *c
	masked.Prefix = network(c.Prefix)
	if c.Source != weir.Unresolved || !c.Via.IsValid() {
		return masked.Key()
	}
	return "unresolved:" + network(netip.PrefixFrom(c.Via, c.Via.BitLen())).String()
}

func (m *masker) hash(c *weir.Client) string {
	mac := hmac.New(sha256.New, m.key[:])
	mac.Write(c.AppendKey(nil))
	return "hash:" + hex.EncodeToString(mac.Sum(nil)[:hashBytes])
}

// network returns the network around p that may be known; a wider p stays as it is.
func network(p netip.Prefix) netip.Prefix {
	bits := maskedIPv6
	if p.Addr().Is4() {
		bits = maskedIPv4
	}
	if p.Bits() <= bits {
		return p
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked()
}
