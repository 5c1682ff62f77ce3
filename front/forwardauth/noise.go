package forwardauth

import (
	"log/slog"
	"strings"
)

// noise takes what net/http says of single connections, which names addresses in full: for debugging. A
// panic is ours, and told without the address.
type noise struct{ log *slog.Logger }

func (n noise) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	rest, panicked := strings.CutPrefix(text, "http: panic serving ")
	if !panicked {
		n.log.Debug(text)
		return len(line), nil
	}
	if _, cause, ok := strings.Cut(rest, ": "); ok {
		rest = cause
	}
	n.log.Error("panic while serving", "cause", rest)
	return len(line), nil
}
