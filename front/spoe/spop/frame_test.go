package spop

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden returns frames that an HAProxy 2.6.12 sent, without their lengths, by name.
func golden(t testing.TB) map[string]string {
	t.Helper()
	names, err := filepath.Glob("testdata/haproxy-2.6/*.hex")
	if err != nil || len(names) == 0 {
		t.Fatalf("no frames: %v", err)
	}
	frames := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames[strings.TrimSuffix(filepath.Base(name), ".hex")] = string(b)
	}
	return frames
}

func TestHAProxysHello(t *testing.T) {
	frames := golden(t)
	want := map[string]Hello{
		"hello":       {Versions: "2.0", MaxFrame: 16380, Capabilities: "pipelining,async", Engine: "f05bce7e-58fa-4ebe-86ef-da4d33998276"},
		"healthcheck": {Versions: "2.0", MaxFrame: 16380, Healthcheck: true},
	}
	for name := range want {
		f, err := ParseFrame(frames[name])
		if err != nil || f.Type != HAProxyHello || !f.Whole() || f.Stream != 0 || f.ID != 0 {
			t.Fatalf("%s: %+v, %v", name, f, err)
		}
		got, err := ParseHello(f.Payload)
		if diff := cmp.Diff(want[name], got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// An argument is a name and its value.
type argument struct {
	Name  string
	Value Value
}

func arguments(d *Decoder) (list []argument) {
	for range d.Byte() {
		list = append(list, argument{d.Text(), d.Value()})
	}
	return list
}

func TestHAProxysNotify(t *testing.T) {
	f, err := ParseFrame(golden(t)["notify"])
	if err != nil || f.Type != Notify || !f.Whole() || f.Stream != 0 || f.ID != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	d := Decode(f.Payload)
	if name := d.Text(); name != "weir-check" {
		t.Errorf("message %q", name)
	}
	want := []argument{
		{"src", Value{Kind: IPv4, Text: "\x7f\x00\x00\x01"}}, {"ssl", Truth(false)}, {"method", Text("GET")}, {"path", Text("/a%20b")},
		{"query", Text("x=1")}, {"host", Text("127.77.1.2:18080")},
		{"xff", Text("c")}, {"xff", Text("")}, {"xff", Text("d")}, {"xff", Text("")}, {"xff", Text("")},
		{"f1", Text("")}, {"f2", Text("")}, {"f9", Value{}}, {"last", Text(" d ,,")}, {"key", Text("k, b")}, {"hdr.X-Plan", Text("gold")},
	}
	if diff := cmp.Diff(want, arguments(&d)); diff != "" || d.More() || d.Err() != nil {
		t.Errorf("%v (-want +got):\n%s", d.Err(), diff)
	}
}

func TestFrames(t *testing.T) {
	tests := []struct {
		name, want string
		frame      []byte
	}{
		{"hello", "00000040" + "65" + "00000001" + "0000" +
			"07" + hex.EncodeToString([]byte("version")) + "0803" + hex.EncodeToString([]byte("2.0")) +
			"0e" + hex.EncodeToString([]byte("max-frame-size")) + "03fcf006" +
			"0c" + hex.EncodeToString([]byte("capabilities")) + "080a" + hex.EncodeToString([]byte("pipelining")),
			AppendHello(nil, Terms{16380, true})},
		{"disconnect", "0000002f" + "66" + "00000001" + "0000" +
			"0b" + hex.EncodeToString([]byte("status-code")) + "0303" +
			"07" + hex.EncodeToString([]byte("message")) + "0810" + hex.EncodeToString([]byte("frame is too big")),
			AppendDisconnect(nil, TooBig)},
		{"ack", "00000019" + "67" + "00000001" + "f001" + "05" +
			"010302" + "06" + hex.EncodeToString([]byte("status")) + "03bd" +
			"010302" + "00" + "11",
			EndFrame(AppendSetVar(AppendSetVar(BeginFrame(nil, Ack, 256, 5), "status", Number(189)), "", Truth(true)), 0)},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.frame); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		if n := binary.BigEndian.Uint32(tt.frame); int(n) != len(tt.frame)-LengthSize {
			t.Errorf("%s: length %d of %d", tt.name, n, len(tt.frame)-LengthSize)
		}
	}
}

// A frame may be appended to another.
func TestAppendedFrames(t *testing.T) {
	one := AppendHello(nil, Terms{MaxFrame: 300})
	two := AppendDisconnect(one, Normal)
	if got := two[len(one):]; string(got) != string(AppendDisconnect(nil, Normal)) || string(two[:len(one)]) != string(one) {
		t.Errorf("%x", two)
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for _, s := range []string{"", "\x03", "\x03\x00\x00\x00\x01", "\x03\x00\x00\x00\x01\x00", "\x03\x00\x00\x00\x01\x00\xff\xff"} {
		if f, err := ParseFrame(s); err != InvalidFrame {
			t.Errorf("%x: %+v, %v, want an invalid frame", s, f, err)
		}
	}
}

func TestStatusesHaveWords(t *testing.T) {
	for _, s := range []Status{Normal, TimedOut, TooBig, InvalidFrame, NoVersion, NoMaxFrame, UnsupportedVersion, BadMaxFrame, Fragmented} {
		if strings.HasPrefix(s.Error(), "status") {
			t.Errorf("status %d has none", s)
		}
	}
	if got := Status(99).Error(); got != "status 99" {
		t.Errorf("%q", got)
	}
}

// A node is what a slow reader finds: a frame with a list of messages, or nothing.
type node struct {
	Head     Frame
	Messages []named
	Broken   bool
}

type named struct {
	Name      string
	Arguments []argument
}

// read reads s as we do.
func read(s string) node {
	f, err := ParseFrame(s)
	if err != nil {
		return node{Broken: true}
	}
	n := node{Head: f}
	d := Decode(f.Payload)
	for d.More() {
		n.Messages = append(n.Messages, named{d.Text(), arguments(&d)})
	}
	if d.Err() != nil {
		return node{Head: f, Broken: true}
	}
	return n
}

// A slow reader takes one piece after the other off the front, and panics at the first that is not there.
type slow struct{ s string }

func (r *slow) bytes(n uint64) string {
	if n > uint64(len(r.s)) {
		panic(ErrMalformed)
	}
	piece := r.s[:n]
	r.s = r.s[n:]
	return piece
}

func (r *slow) uint() uint64 {
	n, size := slowUint(r.s)
	if n == nil {
		panic(ErrMalformed)
	}
	r.bytes(uint64(size))
	return n.Uint64()
}

func (r *slow) value() Value {
	b := r.bytes(1)[0]
	switch kind := Kind(b % 16); kind {
	case Null:
		return Value{}
	case Bool:
		return Value{Kind: Bool, Number: uint64(b / 16 % 2)}
	case Int32, Uint32, Int64, Uint64:
		return Value{Kind: kind, Number: r.uint()}
	case IPv4:
		return Value{Kind: kind, Text: r.bytes(4)}
	case IPv6:
		return Value{Kind: kind, Text: r.bytes(16)}
	case String, Binary:
		return Value{Kind: kind, Text: r.bytes(r.uint())}
	}
	panic(ErrMalformed)
}

// slowly reads s as the documentation tells it.
func slowly(s string) (n node) {
	defer func() {
		if recover() != nil {
			n = node{Head: n.Head, Broken: true}
		}
	}()
	r := &slow{s}
	var f Frame
	f.Type = Type(r.bytes(1)[0])
	f.Flags = binary.BigEndian.Uint32([]byte(r.bytes(4)))
	f.Stream, f.ID = r.uint(), r.uint()
	f.Payload = r.s
	n.Head = f
	for r.s != "" {
		m := named{Name: r.bytes(r.uint())}
		for range r.bytes(1)[0] {
			m.Arguments = append(m.Arguments, argument{r.bytes(r.uint()), r.value()})
		}
		n.Messages = append(n.Messages, m)
	}
	return n
}

// write is the frame of n, without its length.
func write(n node) string {
	b := BeginFrame(nil, n.Head.Type, n.Head.Stream, n.Head.ID)
	for _, m := range n.Messages {
		b = append(AppendText(b, m.Name), byte(len(m.Arguments)))
		for _, a := range m.Arguments {
			b = AppendValue(AppendText(b, a.Name), a.Value)
		}
	}
	return string(b[LengthSize:])
}

// Any bytes are read as the slow reader reads them; and what was read is written and read as the same.
func FuzzFrame(f *testing.F) {
	for _, s := range golden(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, want := read(s), slowly(s)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%x (-want +got):\n%s", s, diff)
		}
		if got.Broken {
			return
		}
		got.Head.Flags = fin // the only ones that are written
		again := read(write(got))
		got.Head.Payload, again.Head.Payload = "", "" // unused bits are not kept
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}

// Reading costs no memory but for what is kept.
func TestDecodingAllocatesNothing(t *testing.T) {
	s := golden(t)["notify"]
	n := testing.AllocsPerRun(100, func() {
		f, _ := ParseFrame(s)
		d := Decode(f.Payload)
		for d.More() {
			d.Text()
			for range d.Byte() {
				d.Text()
				d.Value()
			}
		}
	})
	if n > 0 {
		t.Errorf("%.1f allocations, want none", n)
	}
}
