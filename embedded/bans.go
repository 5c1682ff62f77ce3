package embedded

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
)

// firstBans is how long the bans of others are waited for at the start.
const firstBans = 2 * time.Second

// bans are who is kept out of an engine, and what bans by itself. The zero bans keep out nobody.
type bans struct {
	known *ban.Bans // nil: nobody could ban
	box   *ban.Box
}

// openBans opens those of the shared store, which every program that shares it follows, or for penalties those of this
// process, which end with it.
func openBans(cfg *config.Config, shared *Shared, told func(ban.Sentence)) bans {
	o := ban.Options{Log: slog.Default()}
	if shared != nil {
		o.Register = shared.Bans
	}
	if o.Register == nil && len(cfg.Penalties) == 0 {
		return bans{}
	}
	b := bans{known: ban.New(o)}
	b.box = ban.NewBox(b.known, told, slog.Default())
	ctx, cancel := context.WithTimeout(context.Background(), firstBans)
	defer cancel()
	_ = b.known.Sync(ctx) // it is logged, and tried again
	return b
}

// guard has s keep out who is banned, and punish as cfg says.
func (b *bans) guard(s *engine.Snapshot, cfg *config.Config, p *policy.Policy) {
	if b.known == nil {
		return
	}
	s.Bans = b.known
	if penalties := b.box.Penalties(cfg.Penalties, s.Store, p.Spares); penalties != nil {
		s.Penalties = penalties
	}
}

// measure adds what the metrics tell of bans.
func (b *bans) measure(g *journal.Gauges) {
	if b.known != nil {
		g.Bans, g.Penalties, g.PassedOver = b.known.Count, b.box.Counts, b.box.PassedOver
	}
}

// tasks are what has to run.
func (b *bans) tasks() []func(context.Context) {
	if b.known == nil {
		return nil
	}
	return []func(context.Context){b.known.Run, b.box.Run}
}
