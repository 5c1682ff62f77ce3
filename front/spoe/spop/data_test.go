package spop

import (
	"encoding/hex"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table of section 3.1 at its edges.
func TestUint(t *testing.T) {
	tests := []struct {
		n   uint64
		hex string
	}{
		{0, "00"}, {239, "ef"},
		{240, "f000"}, {241, "f100"}, {256, "f001"}, {2287, "ff7f"},
		{2288, "f08000"}, {16380, "fcf006"}, {264431, "ffff7f"},
		{264432, "f0808000"}, {33818863, "ffffff7f"},
		{33818864, "f080808000"}, {4328786159, "ffffffff7f"},
		{math.MaxUint64, "fff0fefefefefefefe0e"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(AppendUint(nil, tt.n)); got != tt.hex {
			t.Errorf("%d: %s, want %s", tt.n, got, tt.hex)
		}
		b, _ := hex.DecodeString(tt.hex)
		d := Decode(string(b) + "rest")
		if got := d.Uint(); got != tt.n || d.rest != "rest" || d.Err() != nil {
			t.Errorf("%s: %d, rest %q, %v; want %d", tt.hex, got, d.rest, d.Err(), tt.n)
		}
	}
}

func TestUintThatIsNone(t *testing.T) {
	for _, s := range []string{"", "f0", "f080", "ffffffffffffffffffff0f", "fff0fefefefefefefe0f", "fff0fefefefefefefe8e00", strings.Repeat("ff", 64)} {
		b, _ := hex.DecodeString(s)
		d := Decode(string(b))
		if got := d.Uint(); got != 0 || d.Err() == nil || d.More() {
			t.Errorf("%s: %d, %v, want an error and nothing more to read", s, got, d.Err())
		}
	}
}

var values = []struct {
	v   Value
	hex string
}{
	{Value{}, "00"},
	{Truth(false), "01"},
	{Truth(true), "11"},
	{Value{Kind: Int32, Number: 5}, "0205"},
	{Number(16380), "03fcf006"},
	{Value{Kind: Int64, Number: math.MaxUint64}, "04fff0fefefefefefefe0e"}, // -1
	{Value{Kind: Uint64, Number: 300}, "05fc03"},
	{Value{Kind: IPv4, Text: "\xcb\x00\x71\x07"}, "06cb007107"},
	{Value{Kind: IPv6, Text: "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"}, "0720010db8000000000000000000000001"},
	{Text("GET"), "0803474554"},
	{Value{Kind: Binary, Text: ""}, "0900"},
}

func TestValues(t *testing.T) {
	for _, tt := range values {
		if got := hex.EncodeToString(AppendValue(nil, tt.v)); got != tt.hex {
			t.Errorf("%+v: %s, want %s", tt.v, got, tt.hex)
		}
		b, _ := hex.DecodeString(tt.hex)
		d := Decode(string(b))
		if diff := cmp.Diff(tt.v, d.Value()); diff != "" || d.More() || d.Err() != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.hex, d.Err(), diff)
		}
	}
}

// Whatever is missing at its end, a value is malformed, and nothing follows it.
func TestValuesThatEndEarly(t *testing.T) {
	for _, tt := range values {
		b, _ := hex.DecodeString(tt.hex)
		for n := range len(b) {
			d := Decode(string(b[:n]))
			if got := d.Value(); got != (Value{}) || d.Err() == nil || d.More() {
				t.Errorf("%x: %+v, %v; want an error", b[:n], got, d.Err())
			}
			if d.Byte() != 0 || d.Uint() != 0 || d.Text() != "" || d.Value() != (Value{}) {
				t.Errorf("%x: something follows the end", b[:n])
			}
		}
	}
	for kind := 10; kind < 16; kind++ {
		d := Decode(string(rune(kind)) + "rest")
		if d.Value(); d.Err() == nil || d.More() {
			t.Errorf("type %d: want it malformed", kind)
		}
	}
}

func TestAddr(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::1")}
	var got []netip.Addr
	for _, tt := range values {
		if a := tt.v.Addr(); a.IsValid() {
			got = append(got, a)
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// slowUint is the encoding as HAProxy's documentation tells it: the first byte, plus each further one
// shifted by 4, 11, 18 and so on, the highest bit of it included. It returns nil for what is no number of
// 64 bits, and how many bytes it is made of.
func slowUint(s string) (*big.Int, int) {
	if s == "" {
		return nil, 0
	}
	n := big.NewInt(int64(s[0]))
	if s[0] < 240 {
		return n, 1
	}
	for i := 1; i < len(s); i++ {
		n.Add(n, new(big.Int).Lsh(big.NewInt(int64(s[i])), uint(4+7*(i-1))))
		if n.BitLen() > 64 {
			return nil, 0
		}
		if s[i] < 128 {
			return n, i + 1
		}
	}
	return nil, 0
}

func FuzzUint(f *testing.F) {
	for _, s := range []string{"", "\xef", "\xf0\x00", "\xfc\xf0\x06", "\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := Decode(s)
		got := d.Uint()
		want, size := slowUint(s)
		if want == nil {
			if d.Err() == nil {
				t.Errorf("%x: %d, want an error", s, got)
			}
			return
		}
		if d.Err() != nil || got != want.Uint64() || len(s)-len(d.rest) != size {
			t.Errorf("%x: %d of %d bytes, %v; want %s of %d", s, got, len(s)-len(d.rest), d.Err(), want, size)
		}
		if again := string(AppendUint(nil, got)); again != s[:size] {
			t.Errorf("%d: %x, want %x", got, again, s[:size])
		}
	})
}
