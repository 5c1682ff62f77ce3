// Package noise sorts what the log may say of single connections, for every server of ours.
package noise

import (
	"log"
	"log/slog"
	"net/netip"
	"strings"
)

// Log returns what an [http.Server] may write its errors to. A stranger can make it say as much as he likes,
// and it names addresses in full, so it is for debugging; but a panic is ours, and told without the address.
func Log(l *slog.Logger) *log.Logger { return log.New(writer{l}, "", 0) }

type writer struct{ log *slog.Logger }

const panicked = "http: panic serving "

func (w writer) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	rest, ours := strings.CutPrefix(text, panicked)
	if !ours {
		w.log.Debug(text)
		return len(line), nil
	}
	if _, cause, ok := strings.Cut(rest, ": "); ok {
		rest = cause
	}
	w.log.Error("panic while serving", "cause", rest)
	return len(line), nil
}

// Peer returns what the log may say of who is connected, at a or at a unix socket. A proxy has an address of the
// operator's own; any other may be a client's.
func Peer(a netip.Addr, unix bool) string {
	switch {
	case unix:
		return "unix"
	case a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast():
		return a.String()
	}
	return "a public address"
}
