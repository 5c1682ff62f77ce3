// Package verify finds out what the proxies before Weir do to the headers that name a client, from one
// request that bears a forged address in each of them, and says which configuration fits.
package verify

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/clientip"
)

const (
	chainHeader = "X-Forwarded-For"
	// marker is a connection option (RFC 9110 section 7.6.1) that no proxy passes on.
	marker = "x-weir-hop"
)

// A Forgery is the request's header: in each header that may name a client an address of its own, which
// nobody has.
type Forgery struct {
	Header  http.Header
	forged  map[string]netip.Addr // by canonical name
	options string                // the Connection header
}

// Forge returns a forgery. Its addresses are of 198.18.0.0/15, which is for tests alone (RFC 2544), and
// differ from one another.
func Forge() Forgery {
	f := Forgery{Header: http.Header{}, forged: map[string]netip.Addr{}, options: "keep-alive, " + marker}
	from := rand.Uint32N(1 << 16)
	for i, name := range clientip.IdentityHeaders() {
		n := from + uint32(i)
		name = http.CanonicalHeaderKey(name)
		f.forged[name] = netip.AddrFrom4([4]byte{198, 18 + byte(n>>16&1), byte(n >> 8), byte(n)})
		f.Header.Set(name, f.value(name))
	}
	f.Header.Set("Connection", f.options)
	return f
}

// value is how a header says its forged address.
func (f *Forgery) value(name string) string {
	a := f.forged[name].String()
	switch name {
	case "Forwarded":
		return "for=" + a
	case "Cloudfront-Viewer-Address":
		return a + ":443"
	}
	return a
}

// What the proxies together do to X-Forwarded-For.
const (
	Appends    = "appends"    // an address to what the client sent
	Overwrites = "overwrites" // what the client sent
	Removes    = "removes"    // what the client sent, and writes nothing
	PassesOn   = "nothing"    // what the client sent arrives as he sent it
	Direct     = "no proxy"   // nothing stands between
)

// A Report is what the forged request proved.
type Report struct {
	Front    string   `json:"front"`    // through which it came
	Peer     string   `json:"peer"`     // who connected to Weir
	Resolved string   `json:"resolved"` // the address that Weir took for the client's, or the key it counts under
	Source   string   `json:"source"`   // how it was found
	By       string   `json:"by"`       // what named it, as in x-forwarded-for[1]
	Does     string   `json:"does"`     // what the proxies do to X-Forwarded-For
	Chain    []string `json:"chain"`    // that header as it arrived
	Appended int      `json:"appended"` // entries that the proxies wrote: the right from_right, where it is not 0
	Client   string   `json:"client"`   // the address that it is right to resolve; empty where none arrived
	Named    string   `json:"named"`    // what names it, as in x-forwarded-for[2]
	Believed string   `json:"believed"` // the header whose forged address was resolved; empty: none was
	Right    bool     `json:"right"`    // the right address was resolved
	Survives []string `json:"survives"` // headers whose forged address arrived as it was sent
	Paste    string   `json:"paste"`    // the lines of configuration that fit
	Notes    []string `json:"notes"`
}

// Judge returns what it proves that the forged request arrived like this.
func Judge(f *Forgery, seen *admin.Sighting) Report {
	arrived := http.Header{}
	for _, l := range seen.Headers {
		arrived.Add(l.Name, l.Value)
	}
	r := Report{
		Front: seen.Front, Peer: seen.Peer, Resolved: seen.Client.Key, Source: seen.Client.Source, Chain: []string{}, Survives: []string{}, Notes: []string{},
	}
	if seen.Client.Address != nil {
		r.Resolved = *seen.Client.Address
	}
	if hops := seen.Client.Hops; len(hops) > 0 {
		r.By = hops[len(hops)-1].By
	}
	r.readChain(f, arrived)
	r.readForgeries(f, arrived)
	r.advise(f, arrived)
	r.Right = r.Client != "" && sameAddress(r.Resolved, r.Client) && r.Believed == "" && !r.elsewhere()
	return r
}

// elsewhere reports whether the resolved address was looked for in another place than the client's. The two
// may be equal by chance, as where the request is sent from the proxy's own machine.
func (r *Report) elsewhere() bool {
	inChain := strings.HasPrefix(r.By, strings.ToLower(chainHeader)+"[")
	return r.By != r.Named && (inChain || r.By == "peer")
}

// readChain finds out what was done to the chain.
func (r *Report) readChain(f *Forgery, arrived http.Header) {
	forgedAt := -1
	for _, line := range arrived[chainHeader] {
		for entry := range strings.SplitSeq(line, ",") {
			entry = strings.TrimSpace(entry)
			if entry == f.forged[chainHeader].String() {
				forgedAt = len(r.Chain)
			}
			r.Chain = append(r.Chain, entry)
		}
	}
	r.Appended = len(r.Chain) - 1 - forgedAt
	switch {
	case len(r.Chain) == 0:
		r.Does, r.Appended = Removes, 0
	case forgedAt < 0:
		r.Does = Overwrites
	case r.Appended > 0:
		r.Does = Appends
	case strings.Join(arrived["Connection"], ", ") == f.options && len(arrived["Via"]) == 0:
		r.Does = Direct
	default:
		r.Does = PassesOn
	}
}

// readForgeries finds out which forged addresses arrived, and whether one was believed.
func (r *Report) readForgeries(f *Forgery, arrived http.Header) {
	for name, forged := range f.forged {
		if sameAddress(r.Resolved, forged.String()) {
			r.Believed = name
		}
		if slices.ContainsFunc(arrived[name], func(line string) bool { return strings.Contains(line, f.value(name)) }) {
			r.Survives = append(r.Survives, name)
		}
	}
	slices.Sort(r.Survives)
}

// advise says what is right, and the lines that make it so.
func (r *Report) advise(f *Forgery, arrived http.Header) {
	peer := r.Peer
	if a, err := netip.ParseAddr(peer); err == nil {
		peer = netip.PrefixFrom(a, a.BitLen()).String()
	}
	switch {
	case r.Does == Direct:
		r.Client, r.Named, r.Paste = r.Peer, "peer", "client:\n  path: []\n"
		r.Notes = append(r.Notes, "no HTTP proxy stands before Weir. If "+r.Peer+" is a load balancer that passes connections on, let it speak the PROXY protocol (proxy_protocol)")
	case r.Appended > 0:
		r.Client = address(r.Chain[len(r.Chain)-r.Appended])
		r.Named = fmt.Sprintf("%s[%d]", strings.ToLower(chainHeader), r.Appended)
		r.Paste = fmt.Sprintf("client:\n  from_right: %d\n  peers: [%s]\n", r.Appended, peer)
		if r.Client == "" {
			r.Notes = append(r.Notes, "the outermost proxy wrote no address: "+r.Chain[len(r.Chain)-r.Appended])
		}
	default:
		r.adviseHeader(f, arrived, peer)
	}
}

// adviseHeader looks for another header in which a proxy names the client.
func (r *Report) adviseHeader(f *Forgery, arrived http.Header, peer string) {
	for _, name := range clientip.IdentityHeaders() {
		name = http.CanonicalHeaderKey(name)
		lines := arrived[name]
		if name == chainHeader || len(lines) != 1 || lines[0] == f.value(name) || address(lines[0]) == "" {
			continue
		}
		r.Client, r.Named, r.Paste = address(lines[0]), strings.ToLower(name), "client:\n  header: "+name+"\n  peers: ["+peer+"]\n"
		return
	}
	r.Notes = append(r.Notes, "no header names the client: the proxy must be told to, as in nginx by proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
	if r.Does == PassesOn {
		r.Notes = append(r.Notes, "X-Forwarded-For arrives as the client sent it: whoever trusts it here lets clients choose their address")
	}
}

// address returns the address that a proxy wrote, with or without a port, in canonical form, or "".
func address(entry string) string {
	if a, err := netip.ParseAddrPort(entry); err == nil {
		return a.Addr().Unmap().WithZone("").String()
	}
	a, err := netip.ParseAddr(strings.Trim(entry, "[]"))
	if err != nil {
		return ""
	}
	return a.Unmap().WithZone("").String()
}

// sameAddress reports whether two texts are one address, or one word for none.
func sameAddress(a, b string) bool { return a == b || address(a) != "" && address(a) == address(b) }
