package clientip

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirgate/weir"
)

var (
	realIP  = Config{Header: "X-Real-IP", Peers: []string{"10.0.0.0/8", "unix"}}
	viaEdge = Config{Header: "CF-Connecting-IP", Peers: []string{"10.0.0.0/8"}, Via: []string{"cloudflare"}}
	viewer  = Config{Header: "CloudFront-Viewer-Address", Peers: []string{"10.0.0.0/8"}, HeaderFormat: "ip_port_last_colon"}
	third   = Config{FromRight: 3, Peers: []string{"10.0.0.0/8"}}
)

// repeated is a request with n lines of a header.
func repeated(n int, name, value string) *weir.Request {
	req := request("10.0.0.1:1")
	for range n {
		req.Header.Add(name, value)
	}
	return req
}

func TestWhatIsNotWrittenIsNotGuessed(t *testing.T) {
	none := func(hop string) answer { return answer{"", "unresolved:" + hop, "unresolved"} }
	for _, tc := range []struct {
		name  string
		cfg   Config
		req   *weir.Request
		want  answer
		codes weir.Codes
	}{
		{"no value over a socket", realIP, request("@"), none("unix"), weir.ChainMissing},
		{"a blank value", realIP, request("10.0.0.1:1", "X-Real-IP", " "), answer{"10.0.0.1", "10.0.0.1/32", "peer_only"}, weir.ChainMissing | weir.ClientPrivate},
		{"as many repeats as are compared", realIP, repeated(maxRepeats, "X-Real-IP", "203.0.113.7"), answer{"203.0.113.7", "203.0.113.7/32", "header"}, 0},
		{"one repeat more", realIP, repeated(maxRepeats+1, "X-Real-IP", "203.0.113.7"), none("10.0.0.1"), weir.HeaderDuplicate},
		{"two that are no address", realIP, repeated(2, "X-Real-IP", "nope"), none("10.0.0.1"), weir.HeaderDuplicate},
		{"too long to look at", realIP, request("10.0.0.1:1", "X-Real-IP", walls()), none("10.0.0.1"), weir.ChainInvalidEntry},

		{"no port", viewer, request("10.0.0.1:1", "CloudFront-Viewer-Address", "203.0.113.7"), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"two ports", viewer, request("10.0.0.1:1", "CloudFront-Viewer-Address", "203.0.113.7:1:2"), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"a word for a port", viewer, request("10.0.0.1:1", "CloudFront-Viewer-Address", "203.0.113.7:http"), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"brackets all the same", viewer, request("10.0.0.1:1", "CloudFront-Viewer-Address", "[2001:db8::7]:443"), answer{"2001:db8::7", "2001:db8::/64", "header"}, 0},

		{"no chain to see the edge in", viaEdge, request("10.0.0.1:1", "CF-Connecting-IP", "1.2.3.4"), answer{"10.0.0.1", "10.0.0.1/32", "peer_only"}, weir.ChainMissing | weir.ClientPrivate},
		{"an edge without its header", viaEdge, request("10.0.0.1:1", xff, "1.2.3.4, 173.245.48.9"), none("173.245.48.9"), weir.ChainMissing},
		{"nobody beyond our own", viaEdge, request("10.0.0.1:1", "CF-Connecting-IP", "1.2.3.4", xff, "10.0.7.7"), answer{"10.0.7.7", "10.0.7.7/32", "all_trusted"}, weir.ClientPrivate},

		{"no address at the second hop", third, request("10.0.0.1:1", xff, "203.0.113.7, unknown, 10.0.0.9"), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"a socket that is not trusted", third, request("10.0.0.1:1", xff, "203.0.113.7, unix:, 10.0.0.9"), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"a socket for a client", Config{FromRight: 1, Peers: []string{"unix"}}, request("@", xff, "203.0.113.7, unix:"), none("unix"), weir.ChainInvalidEntry | weir.ChainLong},
		{"a chain that ends in a socket", Config{TrustedProxies: []string{"10.0.0.0/8", "unix"}}, request("10.0.0.1:1", xff, "unix:"), none("unix"), weir.ChainShort},
		{"a second blank line", third, request("10.0.0.1:1", xff, "", xff, ""), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"a for that comes twice", Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}, Forwarded: true},
			request("10.0.0.1:1", "Forwarded", "for=1.2.3.4;for=203.0.113.7"), none("10.0.0.1"), weir.ChainInvalidEntry},
		{"an obfuscated port", Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}, Forwarded: true},
			request("10.0.0.1:1", "Forwarded", `for="203.0.113.7:_gazonk"`), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := resolve(mustNew(t, tc.cfg), tc.req)
			if diff := cmp.Diff(tc.want, answerOf(&c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if c.Chain.Codes != tc.codes {
				t.Errorf("codes %v, want %v", c.Chain.Codes.Names(), tc.codes.Names())
			}
		})
	}
}
