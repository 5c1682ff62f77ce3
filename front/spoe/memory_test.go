package spoe

import (
	"net"
	"testing"
	"time"

	"github.com/weirgate/weir/front/spoe/spop"
	"github.com/weirgate/weir/internal/racing"
)

// nowhere takes what is written.
type nowhere struct{ net.Conn }

func (nowhere) Write(b []byte) (int, error)      { return len(b), nil }
func (nowhere) SetWriteDeadline(time.Time) error { return nil }
func (nowhere) Close() error                     { return nil }
func (nowhere) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// most is how often memory is asked for to answer one frame, beside the frame's own text: the header's
// lines, with the one that HAProxy appends and its text, and the rate limit fields.
const most = 5

func TestAllocations(t *testing.T) {
	if racing.On {
		t.Skip("the race detector has sync.Pool forget")
	}
	h := build(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 1000000/1m, per: client}]}", Options{})
	frame, ask := question(t, h)
	n := testing.AllocsPerRun(1000, func() {
		ask(frame)
	})
	if n > most {
		t.Errorf("%.1f allocations, want at most %d", n, most)
	}
	t.Logf("%.1f allocations", n)
}

// question returns a frame, and a function that has it answered here and now.
func question(tb testing.TB, h *house) (spop.Frame, func(spop.Frame)) {
	b := message(1, messageName, arguments(argument{"xff", spop.Text("198.51.100.1")}, argument{"key", spop.Text("k1")}))
	frame, err := spop.ParseFrame(string(b[spop.LengthSize:]))
	if err != nil {
		tb.Fatal(err)
	}
	c := &conn{server: h.Server, raw: nowhere{}, maxFrame: 16380}
	return frame, func(f spop.Frame) {
		k := h.check()
		k.conn, k.frame = c, f
		c.unanswered.Add(1)
		c.pending.Add(1)
		k.serve(h.engine.Current())
	}
}

func BenchmarkCheck(b *testing.B) {
	h := build(b, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 1000000000/1m, per: client}]}", Options{})
	frame, ask := question(b, h)
	b.ReportAllocs()
	for b.Loop() {
		ask(frame)
	}
}
