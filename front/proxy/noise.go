package proxy

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// noise takes what net/http says of single connections. A stranger can make it say as much as he likes,
// and it names addresses in full, so it is for debugging; but a panic is ours, and told without the
// address.
type noise struct{ log *slog.Logger }

const panicked = "http: panic serving "

func (n noise) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if rest, ok := strings.CutPrefix(text, panicked); ok {
		if _, cause, ok := strings.Cut(rest, ": "); ok {
			rest = cause
		}
		n.log.Error("panic while serving", "cause", rest)
		return len(line), nil
	}
	n.log.Log(context.Background(), slog.LevelDebug, text)
	return len(line), nil
}

func (p *Proxy) errorLog() *log.Logger { return log.New(noise{p.options.Logger}, "", 0) }
