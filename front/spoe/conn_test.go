package spoe

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/front/spoe/spop"
)

func TestHello(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	edit := func(name string, v spop.Value) []argument {
		list := slices.Clone(helloArguments)
		for i := range list {
			if list[i].name == name {
				list[i].value = v
			}
		}
		return list
	}
	terms := func(size uint32, capabilities string) map[string]spop.Value {
		return map[string]spop.Value{"version": spop.Text("2.0"), "max-frame-size": spop.Number(size), "capabilities": spop.Text(capabilities)}
	}
	leave := func(s spop.Status) map[string]spop.Value {
		return map[string]spop.Value{"status-code": spop.Number(uint32(s)), "message": spop.Text(s.Error())}
	}
	tests := []struct {
		name string
		list []argument
		want map[string]spop.Value
	}{
		{"2.6", helloArguments, terms(16380, "pipelining")},
		{"larger frames than ours", edit("max-frame-size", spop.Number(1<<20)), terms(64<<10, "pipelining")},
		{"no capabilities", edit("capabilities", spop.Text("")), terms(16380, "")},
		{"blanks in lists", edit("capabilities", spop.Text("async , pipelining")), terms(16380, "pipelining")},
		{"several versions", edit("supported-versions", spop.Text("1.5, 2.4")), terms(16380, "pipelining")},
		{"another version", edit("supported-versions", spop.Text("3.0,20.0")), leave(spop.UnsupportedVersion)},
		{"no version", helloArguments[1:], leave(spop.NoVersion)},
		{"no frame size", helloArguments[:1], leave(spop.NoMaxFrame)},
		{"too small frames", edit("max-frame-size", spop.Number(255)), leave(spop.BadMaxFrame)},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, h.connect(t).hello(tt.list)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// HAProxy's check is answered and then over. It is not worth a line: there is one each second.
func TestHealthcheck(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	a := h.connect(t)
	got := a.hello([]argument{
		{"supported-versions", spop.Text("2.0")}, {"max-frame-size", spop.Number(16380)},
		{"capabilities", spop.Text("")}, {"healthcheck", spop.Truth(true)},
	})
	if got["version"] != spop.Text("2.0") {
		t.Errorf("%v, want a hello", got)
	}
	if _, err := a.next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want EOF", err)
	}
	h.connect(t).conn.Close() // a check of the port alone
	eventually(t, "connections are forgotten", func() bool { return h.each(func(*conn) {}) == 0 })
	if log, faults := h.logged(); log != "" || len(faults) > 0 {
		t.Errorf("log %q, faults %v: want none", log, faults)
	}
}

func TestHAProxyTakesLeave(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	a := h.dial(t)
	a.send(spop.EndFrame(appendArguments(spop.BeginFrame(nil, spop.HAProxyDisconnect, 0, 0), []argument{
		{"status-code", spop.Number(2)}, {"message", spop.Text("a timeout occurred")},
	}), 0))
	if got := a.left(); got != spop.Normal {
		t.Errorf("%v, want normal", got)
	}
	if _, faults := h.logged(); len(faults) > 0 {
		t.Errorf("faults %v, want none", faults)
	}
}

// Where it cannot be told where the next frame begins, or what a frame answers, the connection ends.
func TestBadFrames(t *testing.T) {
	ask := message(1, messageName, arguments())
	edit := func(at int, b byte) []byte {
		f := slices.Clone(ask)
		f[at] = b
		return f
	}
	tests := []struct {
		name, fault string
		bytes       []byte
		want        spop.Status
	}{
		{"fragment", faultFrame, edit(8, 0), spop.Fragmented},
		{"too long", faultTooBig, []byte("\x00\x00\x3f\xfd"), spop.TooBig},
		{"HTTP", faultTooBig, []byte("GET / HTTP/1.1\r\n\r\n"), spop.TooBig},
		{"shorter than its head", faultFrame, []byte("\x00\x00\x00\x06\x03\x00\x00\x00\x01\x00"), spop.InvalidFrame},
		{"empty", faultFrame, []byte("\x00\x00\x00\x00"), spop.InvalidFrame},
		{"another hello", faultFrame, edit(4, byte(spop.HAProxyHello)), spop.InvalidFrame},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, twoPerMinute, Options{})
			a := h.dial(t)
			a.send(tt.bytes)
			if got := a.left(); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if _, faults := h.logged(); !slices.Equal(faults, []string{tt.fault}) {
				t.Errorf("faults %v, want %s", faults, tt.fault)
			}
			if !slices.Contains(Faults(), tt.fault) {
				t.Errorf("Faults has no %s", tt.fault)
			}
		})
	}
}

func TestBadBeginnings(t *testing.T) {
	tests := []struct {
		name, fault string
		bytes       []byte
		want        spop.Status
	}{
		{"no hello", faultFrame, message(1, messageName, arguments()), spop.InvalidFrame},
		{"HTTP", faultTooBig, []byte("GET / HTTP/1.1\r\n\r\n"), spop.TooBig},
		{"broken hello", faultFrame, spop.EndFrame(append(spop.BeginFrame(nil, spop.HAProxyHello, 0, 0), 9), 0), spop.InvalidFrame},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, twoPerMinute, Options{})
			a := h.connect(t)
			a.send(tt.bytes)
			if got := a.left(); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if _, faults := h.logged(); !slices.Equal(faults, []string{tt.fault}) {
				t.Errorf("faults %v, want %s", faults, tt.fault)
			}
		})
	}
}

// Frames of a type that is not known may be skipped (section 3.2.2).
func TestUnknownFramesAreSkipped(t *testing.T) {
	a := open(t, twoPerMinute, Options{}).dial(t)
	a.send(spop.EndFrame(append(spop.BeginFrame(nil, 77, 0, 0), "what?"...), 0))
	if got := a.check(arguments())["action"]; got != "allow" {
		t.Errorf("%v, want allow", got)
	}
}

// A frame may come in pieces, and may be longer than what a connection holds while it is idle.
func TestFramesInPieces(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	a := h.connect(t)
	list := slices.Clone(helloArguments)
	list[1].value = spop.Number(64 << 10)
	a.hello(list)
	long := message(1, messageName, arguments(text("other", 60_000, "")))
	for piece := range slices.Chunk(long, 7000) {
		a.send(piece)
	}
	if got := a.acknowledged(1)["action"]; got != "allow" {
		t.Errorf("a long frame: %v, want allow", got)
	}
	for _, b := range message(2, messageName, arguments()) {
		a.send([]byte{b})
	}
	if got := a.acknowledged(2)["action"]; got != "allow" {
		t.Errorf("byte by byte: %v, want allow", got)
	}
}

// A pipe is a connection without a network, whose other side is a test's.
func (h *house) pipe(t *testing.T) net.Conn {
	ours, theirs := net.Pipe()
	h.welcome(ours)
	return theirs
}

// Who says nothing, or begins a frame and does not go on, is not waited for.
func TestSilence(t *testing.T) {
	for _, said := range []string{"", "\x00", "\x00\x00\x01\x00\x01"} {
		h := build(t, twoPerMinute, Options{})
		synctest.Test(t, func(t *testing.T) {
			c := h.pipe(t)
			began := time.Now()
			if said != "" {
				if _, err := io.WriteString(c, said); err != nil {
					t.Fatal(err)
				}
			}
			answer, _ := io.ReadAll(c)
			if waited := time.Since(began); waited != helloTime {
				t.Errorf("after %q closed after %s, want %s", said, waited, helloTime)
			}
			if !strings.Contains(string(answer), "time-out") {
				t.Errorf("answer %q, want a disconnect that says why", answer)
			}
		})
	}
}

// An HAProxy that does not read what it is answered is not waited for, and costs a bounded amount of
// memory.
func TestAskerThatDoesNotRead(t *testing.T) {
	h := build(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 1000000/1m}]}", Options{})
	synctest.Test(t, func(t *testing.T) {
		c := h.pipe(t)
		a := &asker{t, c, nil}
		began := time.Now()
		go io.ReadFull(c, make([]byte, 64)) // of the hello, and no more
		a.send(spop.EndFrame(appendArguments(spop.BeginFrame(nil, spop.HAProxyHello, 0, 0), helloArguments), 0))
		for {
			if _, err := c.Write(message(1, messageName, arguments())); err != nil {
				break
			}
		}
		if waited := time.Since(began); waited > writeTime {
			t.Errorf("ended after %s, want at most %s", waited, writeTime)
		}
		c.Close()
		synctest.Wait()
	})
}
