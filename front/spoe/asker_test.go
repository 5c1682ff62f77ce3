package spoe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/front/spoe/spop"
)

// An asker is the other side of a connection, as HAProxy is it.
type asker struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// dial connects and says hello as HAProxy 2.6 does.
func (h *house) dial(t testing.TB) *asker {
	t.Helper()
	a := h.connect(t)
	a.hello(helloArguments)
	return a
}

// connect connects and says nothing.
func (h *house) connect(t testing.TB) *asker {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &asker{t, conn, bufio.NewReader(conn)}
}

// An argument is one of a list of names and values.
type argument struct {
	name  string
	value spop.Value
}

var helloArguments = []argument{
	{"supported-versions", spop.Text("2.0")},
	{"max-frame-size", spop.Number(16380)},
	{"capabilities", spop.Text("pipelining,async")},
	{"engine-id", spop.Text("f05bce7e-58fa-4ebe-86ef-da4d33998276")},
}

func appendArguments(b []byte, list []argument) []byte {
	for _, a := range list {
		b = spop.AppendValue(spop.AppendText(b, a.name), a.value)
	}
	return b
}

// hello sends a hello and returns what the agent answers.
func (a *asker) hello(list []argument) map[string]spop.Value {
	a.t.Helper()
	a.send(spop.EndFrame(appendArguments(spop.BeginFrame(nil, spop.HAProxyHello, 0, 0), list), 0))
	f := a.receive()
	if f.Type != spop.AgentHello && f.Type != spop.AgentDisconnect {
		a.t.Fatalf("answer to a hello: %+v", f)
	}
	return valuesOf(a.t, f.Payload)
}

// valuesOf reads a list of names and values.
func valuesOf(t testing.TB, payload string) map[string]spop.Value {
	t.Helper()
	values := map[string]spop.Value{}
	d := spop.Decode(payload)
	for d.More() {
		name := d.Text()
		values[name] = d.Value()
	}
	if d.Err() != nil {
		t.Fatalf("payload %q: %v", payload, d.Err())
	}
	return values
}

func (a *asker) send(b []byte) {
	a.t.Helper()
	if _, err := a.conn.Write(b); err != nil {
		a.t.Fatal(err)
	}
}

// receive returns the next frame.
func (a *asker) receive() spop.Frame {
	a.t.Helper()
	f, err := a.next()
	if err != nil {
		a.t.Fatalf("no frame: %v", err)
	}
	return f
}

func (a *asker) next() (spop.Frame, error) {
	_ = a.conn.SetReadDeadline(time.Now().Add(patience))
	var head [spop.LengthSize]byte
	if _, err := io.ReadFull(a.in, head[:]); err != nil {
		return spop.Frame{}, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(a.in, b); err != nil {
		return spop.Frame{}, err
	}
	return spop.ParseFrame(string(b))
}

// left returns the status with which the agent takes leave, after which it closes.
func (a *asker) left() spop.Status {
	a.t.Helper()
	f := a.receive()
	if f.Type != spop.AgentDisconnect {
		a.t.Fatalf("want a disconnect: %+v", f)
	}
	status := spop.Status(valuesOf(a.t, f.Payload)["status-code"].Number)
	if _, err := a.next(); !errors.Is(err, io.EOF) {
		a.t.Errorf("after the disconnect: %v, want EOF", err)
	}
	return status
}

// message is a NOTIFY frame with one message.
func message(id uint64, name string, list []argument) []byte {
	b := spop.AppendText(spop.BeginFrame(nil, spop.Notify, 7, id), name)
	return spop.EndFrame(appendArguments(append(b, byte(len(list))), list), 0)
}

// arguments are those of an ordinary request, with others in place of some or added.
func arguments(others ...argument) []argument {
	list := []argument{
		{"src", spop.Value{Kind: spop.IPv4, Text: "\xcb\x00\x71\x07"}}, // 203.0.113.7
		{"ssl", spop.Truth(false)},
		{"method", spop.Text("GET")},
		{"path", spop.Text("/")},
		{"query", spop.Value{}},
		{"host", spop.Text("www.example.com")},
		{"xff", spop.Value{}},
		{"key", spop.Value{}},
	}
	for _, o := range others {
		replaced := false
		for i := range list {
			if list[i].name == o.name {
				list[i], replaced = o, true
			}
		}
		if !replaced {
			list = append(list, o)
		}
	}
	return list
}

// check asks about a request and returns the variables that are set.
func (a *asker) check(list []argument) map[string]any {
	a.t.Helper()
	a.send(message(1, messageName, list))
	return a.acknowledged(1)
}

// acknowledged returns the variables that the acknowledgement of a frame sets.
func (a *asker) acknowledged(id uint64) map[string]any {
	a.t.Helper()
	f := a.receive()
	if f.Type != spop.Ack || f.Stream != 7 || f.ID != id || !f.Whole() {
		a.t.Fatalf("want an acknowledgement of stream 7, frame %d: %+v", id, f)
	}
	return variables(a.t, f.Payload)
}

// variables reads actions that set variables of the transaction.
func variables(t testing.TB, payload string) map[string]any {
	t.Helper()
	set := map[string]any{}
	d := spop.Decode(payload)
	for d.More() {
		if action, n, scope := d.Byte(), d.Byte(), d.Byte(); action != 1 || n != 3 || scope != 2 {
			t.Fatalf("action %d with %d arguments in scope %d, want 1, 3, 2", action, n, scope)
		}
		name := d.Text()
		switch v := d.Value(); v.Kind {
		case spop.Bool:
			set[name] = v.Number == 1
		case spop.Uint32:
			set[name] = int(v.Number)
		default:
			set[name] = v.Text
		}
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return set
}

// text is an argument that is a string of n bytes.
func text(name string, n int, begin string) argument {
	return argument{name, spop.Text(begin + strings.Repeat("x", n-len(begin)))}
}
