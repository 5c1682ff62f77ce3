package verify

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/respond"
)

// An arrival says in few words how a forged request arrives; FORGED stands for the address that a header
// was sent with.
type arrival struct {
	name    string
	headers [][2]string
	peer    string
	client  string // what was resolved, or HEADER's forged address by FORGED:HEADER
	by      string
	want    Report
}

func (a arrival) judge(f *Forgery) Report {
	fill := func(name, text string) string { return strings.ReplaceAll(text, "FORGED", f.forged[name].String()) }
	seen := admin.Sighting{Front: "proxy", Peer: a.peer}
	for _, h := range a.headers {
		value := fill(h[0], h[1])
		if h[1] == "SENT" {
			value = f.Header.Get(h[0])
		}
		seen.Headers = append(seen.Headers, admin.FieldLine{Name: h[0], Value: value})
	}
	client := a.client
	if name, ok := strings.CutPrefix(client, "FORGED:"); ok {
		client = f.forged[name].String()
	}
	seen.Client = respond.Client{Key: client + "/32", Source: "forwarded", Hops: []weir.Hop{{By: "peer"}, {By: a.by}}}
	if netipAddr(client) {
		seen.Client.Address = &client
	} else {
		seen.Client.Key = client
	}
	return Judge(f, &seen)
}

func netipAddr(text string) bool { _, err := netip.ParseAddr(text); return err == nil }

var arrivals = []arrival{
	{"appended, a port with it", [][2]string{{"X-Forwarded-For", "FORGED, 203.0.113.7:4711"}}, "10.0.0.1", "203.0.113.7", "x-forwarded-for[1]",
		Report{Does: Appends, Appended: 1, Client: "203.0.113.7", Right: true, Paste: "client:\n  from_right: 1\n  peers: [10.0.0.1/32]\n"}},
	{"in lines of their own", [][2]string{{"X-Forwarded-For", "FORGED"}, {"X-Forwarded-For", "203.0.113.7"}, {"X-Forwarded-For", "198.51.100.1"}}, "10.0.0.1", "198.51.100.1", "x-forwarded-for[1]",
		Report{Does: Appends, Appended: 2, Client: "203.0.113.7", Paste: "client:\n  from_right: 2\n  peers: [10.0.0.1/32]\n"}},
	{"IPv6, at a unix socket", [][2]string{{"X-Forwarded-For", "FORGED, [2001:db8::7]:443"}}, "unix", "2001:db8::7", "x-forwarded-for[1]",
		Report{Does: Appends, Appended: 1, Client: "2001:db8::7", Right: true, Paste: "client:\n  from_right: 1\n  peers: [unix]\n"}},
	{"overwritten by nothing of use", [][2]string{{"X-Forwarded-For", "unknown"}}, "10.0.0.1", "unresolved:10.0.0.1", "x-forwarded-for[1]",
		Report{Does: Overwrites, Appended: 1, Paste: "client:\n  from_right: 1\n  peers: [10.0.0.1/32]\n"}},
	{"removed", nil, "10.0.0.1", "10.0.0.1", "peer", Report{Does: Removes}},
	{"removed, another header is written", [][2]string{{"X-Real-Ip", "203.0.113.7"}}, "10.0.0.1", "203.0.113.7", "x-real-ip",
		Report{Does: Removes, Client: "203.0.113.7", Right: true, Paste: "client:\n  header: X-Real-Ip\n  peers: [10.0.0.1/32]\n"}},
	{"passed on and believed", [][2]string{{"X-Forwarded-For", "FORGED"}}, "10.0.0.1", "FORGED:X-Forwarded-For", "x-forwarded-for[1]",
		Report{Does: PassesOn, Believed: "X-Forwarded-For"}},
	{"Forwarded believed", [][2]string{{"X-Forwarded-For", "FORGED, 203.0.113.7"}, {"Forwarded", "for=FORGED"}}, "10.0.0.1", "FORGED:Forwarded", "forwarded[1]",
		Report{Does: Appends, Appended: 1, Client: "203.0.113.7", Believed: "Forwarded", Paste: "client:\n  from_right: 1\n  peers: [10.0.0.1/32]\n"}},
	{"nothing between", [][2]string{{"X-Forwarded-For", "FORGED"}, {"Connection", "SENT"}}, "203.0.113.7", "203.0.113.7", "peer",
		Report{Does: Direct, Client: "203.0.113.7", Right: true, Paste: "client:\n  path: []\n"}},
	{"a proxy that only gives itself away", [][2]string{{"X-Forwarded-For", "FORGED"}, {"Connection", "SENT"}, {"Via", "1.1 proxy"}}, "203.0.113.7", "203.0.113.7", "peer", Report{Does: PassesOn}},
	{"the right address at the wrong place", [][2]string{{"X-Forwarded-For", "FORGED, 127.0.0.1, 127.0.0.1"}}, "127.0.0.1", "127.0.0.1", "x-forwarded-for[1]",
		Report{Does: Appends, Appended: 2, Client: "127.0.0.1", Paste: "client:\n  from_right: 2\n  peers: [127.0.0.1/32]\n"}},
}

func TestJudge(t *testing.T) {
	for _, a := range arrivals {
		f := Forge()
		got := a.judge(&f)
		ignore := cmpopts.IgnoreFields(Report{}, "Front", "Peer", "Resolved", "Source", "By", "Named", "Chain", "Survives", "Notes")
		if diff := cmp.Diff(a.want, got, ignore); diff != "" {
			t.Errorf("%s: -want +got:\n%s", a.name, diff)
		}
		if (got.Client == "") != (len(got.Notes) > 0) && got.Does != Direct {
			t.Errorf("%s: notes %q, client %q", a.name, got.Notes, got.Client)
		}
	}
}

// Every header that may name a client is forged, each with an address of its own that nobody has.
func TestForge(t *testing.T) {
	f := Forge()
	unassigned, seen := netip.MustParsePrefix("198.18.0.0/15"), map[netip.Addr]bool{}
	for _, name := range clientip.IdentityHeaders() {
		values := f.Header.Values(name)
		if len(values) != 1 || !strings.Contains(values[0], "198.1") {
			t.Errorf("%s: %q", name, values)
		}
	}
	for name, a := range f.forged {
		if !unassigned.Contains(a) || seen[a] {
			t.Errorf("%s: %s is somebody's, or there twice", name, a)
		}
		seen[a] = true
	}
	if again := Forge(); again.forged["X-Forwarded-For"] == f.forged["X-Forwarded-For"] && again.forged["Forwarded"] == f.forged["Forwarded"] {
		t.Error("two forgeries are the same: what a proxy remembered would be taken for an answer")
	}
}

// What survives is named, in an order that lasts.
func TestSurvivors(t *testing.T) {
	f := Forge()
	got := arrival{headers: [][2]string{{"X-Real-Ip", "FORGED"}, {"Forwarded", "for=FORGED"}, {"X-Client-Ip", "203.0.113.7"}, {"X-Forwarded-For", "FORGED, 203.0.113.7"}},
		peer: "10.0.0.1", client: "203.0.113.7", by: "x-forwarded-for[1]"}.judge(&f)
	if want := []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"}; !slices.Equal(got.Survives, want) {
		t.Errorf("%q, want %q", got.Survives, want)
	}
}

// A stranger's header is judged, whatever it is.
func FuzzJudge(f *testing.F) {
	f.Add("198.18.0.1, 203.0.113.7", "10.0.0.1", "203.0.113.7")
	f.Add(",,", "unix", "unresolved:unix")
	f.Fuzz(func(t *testing.T, chain, peer, client string) {
		forged := Forge()
		r := Judge(&forged, &admin.Sighting{Peer: peer, Client: respond.Client{Key: client}, Headers: []admin.FieldLine{{Name: "X-Forwarded-For", Value: chain}}})
		if r.Appended < 0 || r.Appended > len(r.Chain) || r.Right && r.Client == "" {
			t.Errorf("%+v", r)
		}
	})
}
