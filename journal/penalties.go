package journal

import (
	"log/slog"
	"time"

	"github.com/weirgate/weir"
)

// sentencesPerSecond is how many log lines there are at most about clients that penalties banned.
const sentencesPerSecond = 10

// Penalized writes one log line about a client that a penalty banned, unless this second has had its share. An API
// key is named by its id, an address as log.addresses says.
func (j *Journal) Penalized(c *weir.Client, penalty string, until time.Time) {
	suppressed, ok := j.sentences.take(j.now())
	if !ok {
		return
	}
	who := slog.String("key", c.APIKey)
	if c.APIKey == "" {
		who = slog.String("client", j.masker.client(c))
	}
	attrs := []any{who, slog.String("penalty", penalty), slog.Time("until", until)}
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	j.log.Info("banned by a penalty", attrs...)
}
