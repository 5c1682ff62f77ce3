package guard

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// data is a frame with n bytes of payload.
func data(n int) []byte { return []byte(frame(frameData, 0, n)) }

// speaking returns a connection over which HTTP/2 was begun, and what its client has received once it is closed.
func speaking(t *testing.T) (*Conn, func() []byte) {
	t.Helper()
	server, client := pair(t)
	send(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	for preface := make([]byte, 24); !server.HTTP2(); {
		if _, err := server.Read(preface); err != nil {
			t.Fatal(err)
		}
	}
	received := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(client) // a pipe's end
		received <- all
	}()
	return server, func() []byte { server.Close(); return <-received }
}

// However frames are cut into writes, GOAWAY stands between two of them, after the first, and once.
func TestGoAwayStandsBetweenFrames(t *testing.T) {
	frames := [][]byte{data(0), data(5), data(300), data(0), data(700)}
	all := bytes.Join(frames, nil)
	for _, cut := range []int{1, 2, 9, 10, 13, 14, 23, 200, len(all)} {
		for at := range 30 { // the write before which it is asked for
			server, received := speaking(t)
			end := 0
			for i := 0; end < len(all); i++ {
				if i == at {
					server.GoAway()
				}
				begin := end
				end = min(end+cut, len(all))
				if n, err := server.Write(all[begin:end]); n != end-begin || err != nil {
					t.Fatalf("%d bytes written, %v", n, err)
				}
			}
			server.GoAway()
			server.GoAway()
			if got := received(); !withGoAway(got, frames) {
				t.Fatalf("in writes of %d bytes, asked for before the %dth: it stands elsewhere", cut, at)
			}
		}
	}
}

// withGoAway reports whether got is frames with one GOAWAY after the first or a later one.
func withGoAway(got []byte, frames [][]byte) bool {
	for i := range frames {
		want := append(bytes.Join(frames[:i+1], nil), goAway...)
		if bytes.Equal(got, append(want, bytes.Join(frames[i+1:], nil)...)) {
			return true
		}
	}
	return false
}

// A field block is not cut in two by another frame: RFC 9113 section 4.3. What ends one is its last frame's flag.
func TestGoAwayStandsOutsideFieldBlocks(t *testing.T) {
	tests := []struct {
		name   string
		frames []string
		stands int // behind so many of them
	}{
		{"whole", []string{frame(frameHeaders, endHeaders, 9)}, 1},
		{"whole, of a stream that ends", []string{frame(frameHeaders, endHeaders|endStream, 9)}, 1},
		{"in two", []string{frame(frameHeaders, 0, 9), frame(frameContinue, endHeaders, 9)}, 2},
		{"in three, of a stream that ends", []string{frame(frameHeaders, endStream, 9), frame(frameContinue, 0, 0), frame(frameContinue, endHeaders, 0)}, 3},
		{"pushed", []string{frame(framePush, 0, 9), frame(frameContinue, endHeaders, 9)}, 2},
		{"other frames have no such flag", []string{frame(frameData, 0, 9)}, 1},
	}
	for _, x := range tests {
		server, received := speaking(t)
		server.GoAway()
		x.frames = append(x.frames, string(data(1)))
		for _, f := range x.frames {
			if _, err := server.Write([]byte(f)); err != nil {
				t.Fatal(err)
			}
		}
		want := strings.Join(x.frames[:x.stands], "") + goAway + strings.Join(x.frames[x.stands:], "")
		if got := string(received()); got != want {
			t.Errorf("%s: %q, want %q", x.name, got, want)
		}
	}
}

// A frame is as long as its first three bytes say.
func TestFramesAreFollowedToTheirEnds(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 65_535, 65_536, 1<<24 - 1} {
		var f pulse
		f.next(data(n)[:frameHeader-1])
		if f.between() {
			t.Errorf("%d bytes: it is between frames before the head's end", n)
		}
		rest, _ := f.next(data(n)[frameHeader-1:])
		if n > 0 && f.between() {
			t.Errorf("%d bytes: it is between frames before the payload's end", n)
		}
		f.next(rest)
		if !f.between() {
			t.Errorf("%d bytes: it is not between frames after them", n)
		}
	}
}

// HTTP/1 has no such frame.
func TestHTTP1IsNotToldToGo(t *testing.T) {
	server, client := pair(t)
	server.Handle()
	go func() {
		if !server.HTTP2() {
			io.WriteString(server, "answer")
		}
		server.Close()
	}()
	if got, _ := io.ReadAll(client); string(got) != "answer" {
		t.Errorf("got %q", got)
	}
}

// Who asks while a write is held up by the client does not wait for it.
func TestGoAwayDoesNotWait(t *testing.T) {
	a, b := net.Pipe()
	t.Cleanup(func() { b.Close() })
	server := New(a, 1000, time.Minute)
	server.http2.Store(true)
	server.passed.Store(true)
	wrote := make(chan error)
	go func() { _, err := server.Write(data(3)); wrote <- err }()
	first := make([]byte, 5)
	if _, err := io.ReadFull(b, first); err != nil {
		t.Fatal(err)
	}
	server.GoAway() // in the middle of the frame
	rest := make([]byte, 7+len(goAway))
	if _, err := io.ReadFull(b, rest); err != nil || string(rest[7:]) != goAway {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	a.Close()
}
