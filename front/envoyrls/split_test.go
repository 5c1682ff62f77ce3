package envoyrls

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A poor listener has no descriptors left for some accepts.
type poor struct {
	net.Listener
	mu    sync.Mutex
	times int
}

func (p *poor) Accept() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times > 0 {
		p.times--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return p.Listener.Accept()
}

// Each connection reaches the half that its first bytes ask for, with all of its bytes, also after there were no
// descriptors for a while.
func TestSplit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	halves := newSplit(&poor{Listener: l, times: 3})
	ended := make(chan error, 1)
	go func() { ended <- halves.serve() }()
	for text, half := range map[string]*half{
		"GET / HTTP/1.1\r\n":        halves.http1,
		"POST /json HTTP/1.1\r\n":   halves.http1,
		"PR":                        halves.http1, // and no more
		"PRI * HTTP/2.0\r\n":        halves.other,
		"\x16\x03\x01\x02\x00\x01?": halves.other,
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
		taken, err := half.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(taken); string(got) != text || err != nil {
			t.Errorf("%q came as %q, %v", text, got, err)
		}
		taken.Close()
		c.Close()
	}
	half, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	_ = halves.other.Close()
	select {
	case <-ended:
	case <-time.After(helloTimeout - time.Second):
		t.Fatal("a connection that says nothing holds up the end")
	}
	if _, err := halves.http1.Accept(); err == nil {
		t.Error("the other half is open")
	}
}
