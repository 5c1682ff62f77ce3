package guard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns both ends of a connection, the server's guarded.
func pair(t *testing.T) (server *Conn, client net.Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return New(a, 1000, time.Minute), b
}

// send writes s from another goroutine.
func send(c net.Conn, s string) { go io.WriteString(c, s) }

func TestAnswerStatesItsLength(t *testing.T) {
	for f := BadRequestLine; f <= Expectation; f++ {
		answer := string(answer(f))
		head, body, _ := strings.Cut(answer, "\r\n\r\n")
		if !strings.Contains(head, "Content-Type: application/problem+json\r\n") || !strings.Contains(body, f.String()) {
			t.Errorf("%s: %s", f, answer)
		}
	}
	if HeaderTooSlow.Status() != 408 || Expectation.Status() != 417 || HeaderTooLarge.Status() != 431 || BareLF.Status() != 400 {
		t.Error("wrong HTTP status")
	}
}

func TestReadRefusesOnce(t *testing.T) {
	server, client := pair(t)
	send(client, "GET / HTTP/1.1\n")
	heard := make(chan string)
	go func() {
		answer := make([]byte, 500)
		n, _ := client.Read(answer)
		client.Close()
		heard <- string(answer[:n])
	}()
	var p [100]byte
	for range 2 {
		if n, err := server.Read(p[:]); n != 0 || err != errRefused {
			t.Errorf("read %d bytes, %v", n, err)
		}
	}
	if got := <-heard; !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("heard %q", got)
	}
}

// While a request is being answered its reader waits on, and no answer is cut in two.
func TestFaultWaitsForTheAnswerBefore(t *testing.T) {
	server, client := pair(t)
	send(client, get+"GET / HTTP/1.1\n")
	var p [100]byte
	if n, err := server.Read(p[:]); n != len(get) || err != nil {
		t.Fatalf("read %d bytes, %v, want the good request", n, err)
	}
	Follow(server, http.StateActive)
	go func() { server.SetReadDeadline(time.Unix(1, 0)) }() // as net/http interrupts a read
	if _, err := server.Read(p[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while it is answered: %v", err)
	}
	Follow(server, http.StateIdle)
	go io.Copy(io.Discard, client)
	if _, err := server.Read(p[:]); err != errRefused {
		t.Errorf("afterwards: %v", err)
	}
}

func TestFaultInABodyIsTheReadersError(t *testing.T) {
	server, client := pair(t)
	head := lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "")
	var p [200]byte
	send(client, head)
	if n, err := server.Read(p[:]); n != len(head) || err != nil {
		t.Fatal(n, err)
	}
	send(client, "1\r\nx\r\nz")
	if n, err := server.Read(p[:]); n != 6 || err != nil || server.Fault() != None {
		t.Errorf("before the fault: %d, %v, %s", n, err, server.Fault())
	}
	var fault *Error
	if _, err := server.Read(p[:]); !errors.As(err, &fault) || fault.Fault != BadChunk || server.Fault() != BadChunk {
		t.Errorf("at the fault: %v, %s", err, server.Fault())
	}
}

func TestNothingIsFollowedAfterAnUpgrade(t *testing.T) {
	server, client := pair(t)
	Follow(server, http.StateHijacked)
	send(client, "\n\n")
	var p [10]byte
	if n, err := server.Read(p[:]); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// The header's time ends with 408; time between requests, with nothing.
func TestOnlyAHeaderThatBeganIsLate(t *testing.T) {
	for began, want := range map[string]string{"GET /": "HTTP/1.1 408 ", "": "", get: "", get + "G": "HTTP/1.1 408 "} {
		synctest.Test(t, func(t *testing.T) {
			server, client := pair(t)
			heard := make(chan string, 1)
			go func() {
				io.WriteString(client, began)
				all, _ := io.ReadAll(client)
				heard <- string(all)
			}()
			server.SetReadDeadline(time.Now().Add(time.Second))
			var err error
			for p := make([]byte, 100); err == nil; {
				_, err = server.Read(p)
			}
			server.Close()
			if got := <-heard; !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%q: heard %q, want %q", began, got, want)
			}
		})
	}
}

// Every write gets at least half of stall, and none more than all of it.
func TestWriteGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pair(t)
		server.Handle()
		go client.Read(make([]byte, 1))
		if _, err := server.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		server.SetWriteDeadline(time.Time{}) // as net/http does between requests
		began := time.Now()
		_, err := server.Write([]byte("x"))
		if waited := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || waited != 40*time.Second {
			t.Errorf("%v after %s", err, waited)
		}
		go client.Read(make([]byte, 1))
		if _, err := server.Write([]byte("x")); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

// What the server says before the handler has a request is its own refusal, and said better here; a
// handler's answer stays, whatever it looks like.
func TestTheServersOwnRefusalIsReplaced(t *testing.T) {
	for own, want := range map[string]Fault{
		"HTTP/1.1 400 Bad Request: missing required Host header\r\nContent-Type: text/plain\r\n\r\n400": Invalid,
		"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n\r\n":                                  Expectation,
		"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n":                                          HeaderTooLarge,
		"HTTP/1.1 501 Not Implemented\r\n\r\n":                                                          Invalid,
		"H":                                                                                             Invalid,
	} {
		server, client := pair(t)
		var told []Fault
		server.refused = func(f Fault, _ net.Addr) { told = append(told, f) }
		heard := make(chan string)
		go func() {
			b := make([]byte, 500)
			n, _ := client.Read(b)
			heard <- string(b[:n])
		}()
		for range 2 {
			if n, err := server.Write([]byte(own)); n != len(own) || err != nil {
				t.Errorf("%q: wrote %d, %v", own, n, err)
			}
		}
		if got := <-heard; got != string(answer(want)) || len(told) != 1 || told[0] != want {
			t.Errorf("%q: heard %q, told %v", own, got, told)
		}
	}
	server, client := pair(t)
	Follow(server, http.StateActive)
	server.Handle()
	go server.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	b := make([]byte, 500)
	if n, _ := client.Read(b); string(b[:n]) != "HTTP/1.1 400 Bad Request\r\n\r\n" {
		t.Errorf("a handler's answer became %q", b[:n])
	}
}

// A connection that ends early, or whose TLS or PROXY header fails, made no request to refuse.
func TestABrokenConnectionIsNotAnswered(t *testing.T) {
	server, client := pair(t)
	server.refused = func(f Fault, _ net.Addr) { t.Errorf("told of %s", f) }
	go func() { io.WriteString(client, "GET / HT"); client.Close() }()
	var err error
	for p := make([]byte, 100); err == nil; {
		_, err = server.Read(p)
	}
	if n, err := server.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); n != 28 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{"": true, None.Name(): true}
	for _, name := range Names() {
		if seen[name] {
			t.Errorf("%q is there twice, or is no fault", name)
		}
		seen[name] = true
	}
}

func TestOtherConnectionsAreNoneOfOurs(t *testing.T) {
	if From(context.Background()) != nil {
		t.Error("a connection without one")
	}
	a, _ := net.Pipe()
	defer a.Close()
	Follow(a, http.StateActive)
	server := New(a, 1000, time.Minute)
	if From(WithConn(context.Background(), server)) != server || server.TLS() != nil || server.NetConn() != a {
		t.Error("the connection is another")
	}
	if !errors.Is(server.CloseWrite(), errors.ErrUnsupported) || !errors.Is(server.SetLinger(0), errors.ErrUnsupported) {
		t.Error("a pipe can do what TCP can")
	}
}

// wrapped hides a connection as TLS and the PROXY protocol do.
type wrapped struct{ net.Conn }

func (w wrapped) Raw() net.Conn { return w.Conn }

func TestLingerReachesTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server := New(wrapped{c}, 1000, time.Minute)
	if err := errors.Join(server.SetLinger(0), server.CloseWrite()); err != nil {
		t.Error(err)
	}
}
