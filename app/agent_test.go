package app

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/weirgate/weir/front/spoe/spop"
)

// An agent is a connection to the agent, as HAProxy holds it.
type agent struct {
	t    testing.TB
	conn net.Conn
}

// callAgent connects as HAProxy does, and says hello.
func (h *house) callAgent() *agent {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr("spoe.listen"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	a := &agent{h.t, conn}
	hello := spop.BeginFrame(nil, spop.HAProxyHello, 0, 0)
	hello = spop.AppendValue(spop.AppendText(hello, "supported-versions"), spop.Text("2.0"))
	hello = spop.AppendValue(spop.AppendText(hello, "max-frame-size"), spop.Number(16380))
	hello = spop.AppendValue(spop.AppendText(hello, "capabilities"), spop.Text("pipelining"))
	a.exchange(spop.EndFrame(hello, 0))
	return a
}

// exchange sends a frame and returns the one that answers it.
func (a *agent) exchange(frame []byte) spop.Frame {
	a.t.Helper()
	_ = a.conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := a.conn.Write(frame); err != nil {
		a.t.Fatal(err)
	}
	var head [spop.LengthSize]byte
	if _, err := io.ReadFull(a.conn, head[:]); err != nil {
		a.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(a.conn, b); err != nil {
		a.t.Fatal(err)
	}
	f, err := spop.ParseFrame(string(b))
	if err != nil {
		a.t.Fatal(err)
	}
	return f
}

// status asks about a GET of path by a client that is connected to HAProxy, and returns the HTTP status that the
// agent sets.
func (a *agent) status(client, path string) int {
	a.t.Helper()
	b := append(spop.AppendText(spop.BeginFrame(nil, spop.Notify, 1, 1), "weir-check"), 4) // arguments
	src := netip.MustParseAddr(client).As4()
	b = spop.AppendValue(spop.AppendText(b, "src"), spop.Value{Kind: spop.IPv4, Text: string(src[:])})
	b = spop.AppendValue(spop.AppendText(b, "method"), spop.Text("GET"))
	b = spop.AppendValue(spop.AppendText(b, "path"), spop.Text(path))
	b = spop.AppendValue(spop.AppendText(b, "host"), spop.Text("a"))
	d := spop.Decode(a.exchange(spop.EndFrame(b, 0)).Payload)
	for d.More() {
		d.Byte() // set a variable
		d.Byte() // by three arguments
		d.Byte() // of the transaction
		if name, value := d.Text(), d.Value(); name == "status" {
			return int(value.Number)
		}
	}
	a.t.Fatalf("the agent sets no status: %v", d.Err())
	return 0
}
