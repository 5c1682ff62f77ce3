package ban

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// A model is a list of bans that is looked through from end to end.
type model map[Subject]*weir.Ban

func (m model) find(now time.Time, c *weir.Client) *weir.Ban {
	if b := m[Subject{Key: c.APIKey}]; c.APIKey != "" && b != nil && b.Holds(now) {
		return b
	}
	var best *weir.Ban
	bits := -1
	for s, b := range m {
		if s.Key == "" && s.Network.Contains(c.Addr) && s.Network.Bits() > bits && b.Holds(now) {
			best, bits = b, s.Network.Bits()
		}
	}
	return best
}

// anyone returns a subject among few networks, so that they nest.
func anyone(r *rand.Rand) Subject {
	switch r.IntN(4) {
	case 0:
		return Subject{Key: fmt.Sprint("k", r.IntN(4))}
	case 1:
		n, _ := address6(r).Prefix(32 + r.IntN(97))
		return Subject{Network: n}
	}
	n, _ := address4(r).Prefix(r.IntN(33))
	return Subject{Network: n}
}

func address4(r *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{198, byte(18 + r.IntN(2)), byte(r.IntN(3)), byte(r.IntN(8))})
}

func address6(r *rand.Rand) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 7: byte(r.IntN(3)), 15: byte(r.IntN(4))})
}

// However bans come, go and end, the narrowest that holds is found: that of a list looked through.
func TestTableAgreesWithTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	began := time.Unix(1e9, 0)
	for round := range 40 {
		now, table, m := began, newTable(), model{}
		for step := range 150 {
			now = now.Add(time.Duration(r.IntN(3)) * time.Second)
			c := change{subject: anyone(r)}
			if r.IntN(4) > 0 {
				c.ban = &weir.Ban{Subject: c.subject.String()}
				if r.IntN(3) > 0 {
					c.ban.Until = now.Add(time.Duration(r.IntN(60)) * time.Second)
				}
				m[c.subject] = c.ban
			} else {
				delete(m, c.subject)
			}
			before := table
			table = before.with([]change{c})
			for range 5 {
				who := weir.Client{Addr: address4(r)}
				if r.IntN(3) == 0 {
					who.Addr = address6(r)
				}
				if r.IntN(4) == 0 {
					who.APIKey = fmt.Sprint("k", r.IntN(4))
				}
				if got, want := table.find(now, &who), m.find(now, &who); got != want {
					t.Fatalf("round %d, step %d: %v %s: %+v, want %+v", round, step, who.Addr, who.APIKey, got, want)
				}
			}
		}
	}
}

// A table that somebody reads does not change.
func TestTablesAreApart(t *testing.T) {
	first := newTable().with([]change{{Subject{Key: "a"}, &weir.Ban{}}, {subject(t, "203.0.113.0/24"), &weir.Ban{}}})
	first.with([]change{{subject: Subject{Key: "a"}}, {subject: subject(t, "203.0.113.0/24")}, {Subject{Key: "b"}, &weir.Ban{}}})
	for _, c := range []weir.Client{{APIKey: "a"}, {Addr: netip.MustParseAddr("203.0.113.9")}} {
		if first.find(time.Now(), &c) == nil {
			t.Errorf("%+v: the ban went", c)
		}
	}
	if c := (weir.Client{APIKey: "b"}); first.find(time.Now(), &c) != nil {
		t.Error("a later ban came")
	}
}

func subject(t testing.TB, text string) Subject {
	t.Helper()
	s, err := ParseSubject(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseSubject(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "203.0.113.7/32": "203.0.113.7/32", "203.0.113.0/24": "203.0.113.0/24",
		"::ffff:203.0.113.7": "203.0.113.7/32", "::ffff:203.0.113.0/120": "203.0.113.0/24",
		"2001:DB8::1": "2001:db8::1/128", "2001:db8::/32": "2001:db8::/32", "key:abc": "key:abc", "key:jwt:me@example": "key:jwt:me@example",
		"0.0.0.0/0": "0.0.0.0/0",
	} {
		if got := subject(t, text).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	type refusal struct{ text, why string }
	for _, r := range []refusal{
		{"", `"": want an address, a network as in 203.0.113.0/24, or key:ID`},
		{"203.0.113.7/24", `"203.0.113.7/24": want 203.0.113.0/24 for the network, or 203.0.113.7 for the one address`},
		{"fe80::1%eth0", `"fe80::1%eth0": want an address, a network as in 203.0.113.0/24, or key:ID`},
		{"203.0.113.010", `"203.0.113.010": want an address, a network as in 203.0.113.0/24, or key:ID`},
		{"key:", `"key:": want key: and the id of an API key, of 1 to 256 visible characters`},
		{"key:a b", `"key:a b": want key: and the id of an API key, of 1 to 256 visible characters`},
		{"key:a\n", `"key:a\n": want key: and the id of an API key, of 1 to 256 visible characters`},
		{"unresolved:none", `"unresolved:none": a client that could not be resolved may be anybody: to refuse all of them write client: {unresolved: reject}`},
	} {
		if _, err := ParseSubject(r.text); err == nil {
			t.Errorf("%q is a subject", r.text)
		} else if diff := cmp.Diff(r.why, err.Error()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, text := range []string{"203.0.113.7", "2001:db8::/32", "key:abc", "::ffff:1.2.3.4/97", "key:\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSubject(text)
		if err != nil {
			return
		}
		if (s.Key == "") != s.Network.IsValid() {
			t.Errorf("%q: %+v is neither a network nor a key", text, s)
		}
		if again, err := ParseSubject(s.String()); err != nil || again != s {
			t.Errorf("%q: %s is read as %v, %v", text, s, again, err)
		}
	})
}

// crowd returns bans of n networks, most of them of one address, and clients of whom half are banned.
func crowd(n int) (*table, []weir.Client) {
	r := rand.New(rand.NewPCG(3, 4))
	t, clients := newTable(), make([]weir.Client, 0, 1024)
	for i := range n {
		a := netip.AddrFrom4([4]byte{byte(1 + r.IntN(223)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
		bits := 32
		if i%3 == 0 {
			var b [16]byte
			b[0], b[1] = 0x20, 0x01
			for k := 2; k < 8; k++ {
				b[k] = byte(r.IntN(256))
			}
			a, bits = netip.AddrFrom16(b), 64
		} else if i%50 == 1 {
			bits = 24
		}
		p, _ := a.Prefix(bits)
		t.fill([]change{{Subject{Network: p}, &weir.Ban{Subject: p.String()}}})
		if i < cap(clients)/2 {
			clients = append(clients, weir.Client{Addr: a}, weir.Client{Addr: a.Next().Next().Next()})
		}
	}
	return t, clients
}

// A look at 100,000 bans: at most 100 ns, and no memory.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{0, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bans := New(Options{})
			table, clients := crowd(n)
			if n == 0 {
				_, clients = crowd(1000)
			}
			bans.table.Store(table)
			now := time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bans.Find(now, &clients[i%len(clients)])
			}
		})
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	bans := New(Options{})
	table, clients := crowd(1000)
	ended := weir.Ban{Until: time.Unix(1, 0)}
	table.fill([]change{{Subject{Network: netip.PrefixFrom(clients[0].Addr, clients[0].Addr.BitLen())}, &ended}})
	bans.table.Store(table)
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		for i := range clients {
			bans.Find(now, &clients[i])
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
