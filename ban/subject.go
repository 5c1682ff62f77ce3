package ban

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

// A Subject is whom a ban is about: a network, of one address or more, or an API key.
type Subject struct {
	Network netip.Prefix // the zero Prefix: Key is given
	Key     string       // id of an API key
}

const (
	keyPrefix = "key:"
	longestID = 256 // bytes of an API key's id
)

// ParseSubject reads an address, a network in CIDR form, or key:ID. The error says what to write.
func ParseSubject(text string) (Subject, error) {
	if id, ok := strings.CutPrefix(text, keyPrefix); ok {
		if !isID(id) {
			return Subject{}, fmt.Errorf("%s: want key: and the id of an API key, of 1 to %d visible characters", shown(text), longestID)
		}
		return Subject{Key: id}, nil
	}
	if strings.HasPrefix(text, "unresolved:") {
		return Subject{}, fmt.Errorf("%s: a client that could not be resolved may be anybody: to refuse all of them write client: {unresolved: reject}", shown(text))
	}
	n, ok := clientip.ParseNetwork(text)
	switch {
	case !ok:
		return Subject{}, fmt.Errorf("%s: want an address, a network as in 203.0.113.0/24, or key:ID", shown(text))
	case n.Masked() != n:
		return Subject{}, fmt.Errorf("%s: want %s for the network, or %s for the one address", shown(text), n.Masked(), n.Addr())
	}
	return Subject{Network: n}, nil
}

// isID reports whether id can be that of an API key.
func isID(id string) bool {
	return id != "" && len(id) <= longestID && utf8.ValidString(id) && !strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsGraphic(c) || c == ' ' })
}

// shown returns the beginning of a stranger's text, on one line.
func shown(text string) string { return fmt.Sprintf("%.64q", text) }

// String returns the one form that ParseSubject reads as s: CIDR text, also of a single address, or key:ID.
func (s Subject) String() string {
	if s.Key != "" {
		return keyPrefix + s.Key
	}
	return s.Network.String()
}

// subjectOf returns whom a penalty per ip, client or key is about when c offends; ok is false if nobody.
// The whole network is that counts as one client.
func subjectOf(per string, c *weir.Client) (s Subject, ok bool) {
	switch {
	case per != "ip" && c.APIKey != "":
		return Subject{Key: c.APIKey}, isID(c.APIKey)
	case per == "key":
		return Subject{}, false
	}
	return Subject{Network: c.Prefix}, c.Prefix.IsValid()
}
