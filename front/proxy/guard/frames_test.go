package guard

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// frame returns a frame of HTTP/2 whose payload has n bytes.
func frame(kind, flags byte, n int) string {
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, 1}) + strings.Repeat("\n", n)
}

// take writes s to client and returns what the server reads of it, and its error.
func take(server *Conn, client net.Conn, s string) (string, error) {
	go func() { io.WriteString(client, s) }()
	var got strings.Builder
	for p := make([]byte, 1000); got.Len() < len(s); {
		n, err := server.Read(p)
		got.Write(p[:n])
		if err != nil {
			return got.String(), err
		}
	}
	return got.String(), nil
}

// Frames that bring nothing are let through up to a number; the next ends the connection, and is told of once.
// What a frame is worth does not hang on the pieces that it comes in.
func TestFramesForNothing(t *testing.T) {
	tests := []struct {
		name, frames string
		pass         int // how many times
	}{
		{"PING", frame(6, 0, 8), purse},
		{"SETTINGS", frame(4, 0, 0), purse},
		{"WINDOW_UPDATE", frame(8, 0, 4), purse},
		{"PRIORITY", frame(2, 0, 5), purse},
		{"CONTINUATION", frame(9, 0, 0), purse},
		{"unknown", frame(99, 0, 100), purse},
		{"empty DATA", frame(0, 0, 0), purse},
		{"RST_STREAM", frame(3, 0, 4), purse / costReset},
		{"streams opened and reset", frame(1, 5, 3) + frame(3, 0, 4), purse - 2},
		{"streams opened and ended by an empty DATA", frame(1, 4, 3) + frame(0, 1, 0), 5000},
		{"DATA", frame(0, 0, 1), 5000},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := pair(t)
				var told []Fault
				server.refused = func(f Fault, _ net.Addr) { told = append(told, f) }
				all := preface + strings.Repeat(x.frames, x.pass)
				if got, err := take(server, client, all); got != all || err != nil {
					t.Fatalf("%d of %d bytes, %v", len(got), len(all), err)
				}
				if x.pass == 5000 {
					return
				}
				for range 2 {
					if _, err := take(server, client, strings.Repeat(x.frames, 2)); !errors.Is(err, errRefused) {
						t.Errorf("beyond: %v", err)
					}
				}
				if len(told) != 1 || told[0] != FrameFlood {
					t.Errorf("told of %v", told)
				}
			})
		})
	}
}

// A hundred each second may go on for ever, as for a client that asks whether the connection lives.
func TestFramesNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pair(t)
		second := strings.Repeat(frame(6, 0, 8), income)
		for i := range 60 {
			begin := ""
			if i == 0 {
				begin = preface
			}
			if _, err := take(server, client, begin+second); err != nil {
				t.Fatalf("after %d seconds: %v", i, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// The income of a connection that was silent is that of a second, however long it was.
func TestIncomeIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pair(t)
		ping := frame(6, 0, 8)
		if _, err := take(server, client, preface); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		all := strings.Repeat(ping, purse+income)
		if got, err := take(server, client, all); got != all || err != nil {
			t.Fatalf("%d of %d bytes, %v", len(got), len(all), err)
		}
		if _, err := take(server, client, ping); !errors.Is(err, errRefused) {
			t.Errorf("one more: %v", err)
		}
	})
}

// Who takes answers may acknowledge each of their frames twice: the purse does not get empty.
func TestAnswersAreAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pair(t)
		if _, err := take(server, client, preface); err != nil {
			t.Fatal(err)
		}
		for i := range 3 * purse {
			go io.ReadFull(client, make([]byte, 9+100))
			server.Write([]byte(frame(0, 0, 100)))
			if _, err := take(server, client, frame(8, 0, 4)+frame(8, 0, 4)); err != nil {
				t.Fatalf("after %d frames: %v", i, err)
			}
		}
	})
}

// Where frames begin does not hang on the pieces that they come in.
func FuzzPulse(f *testing.F) {
	f.Add([]byte(frame(6, 0, 8)+frame(0, 1, 0)+frame(1, 4, 300)), 1)
	f.Add([]byte("\xff\xff\xff\x00\x00\x00\x00\x00\x00"), 4)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = 1 + int(uint(size)%50)
		if got, want := headers(pieces(string(data), size)), headers([][]byte{data}); got != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	})
}

// headers returns the headers of all whole frames, one after the other.
func headers(p [][]byte) string {
	var f pulse
	var all []byte
	for _, piece := range p {
		for whole := true; whole; {
			if piece, whole = f.next(piece); whole {
				all = append(all, f.header[:]...)
			}
		}
	}
	return string(all)
}
