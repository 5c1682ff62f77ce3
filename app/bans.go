package app

import (
	"context"
	"time"

	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/localdb"
)

const (
	bansOften  = 300 * time.Millisecond // Redis is asked what other replicas did
	bansSeldom = 5 * time.Second        // the embedded database is asked, which nobody else writes
	bansFirst  = 2 * time.Second        // bans are waited for at the start
)

// openBans opens what keeps bans: Redis where there is one, else the embedded database. One that does not answer is
// no error: the log says so, and it is asked again.
func (a *App) openBans(c *config.Config) {
	o := ban.Options{Every: bansSeldom, Log: a.log}
	o.Register = ban.KeepIn(func(create bool) (ban.Database, error) {
		if !create && !localdb.Exists(c.DataDir) {
			return nil, nil
		}
		db, err := a.store.database(c.DataDir)
		if err != nil {
			return nil, err
		}
		return db, nil
	})
	if a.store.shared != nil {
		o.Register, o.Every = a.store.shared.Register("bans"), bansOften
	}
	a.bans = ban.New(o)
	a.box = ban.NewBox(a.bans, func(s ban.Sentence) { a.journal.Penalized(&s.Client, s.Penalty, s.Ban.Until) }, a.log)
	ctx, cancel := context.WithTimeout(context.Background(), bansFirst)
	defer cancel()
	_ = a.bans.Sync(ctx) // it is logged
}

// punish gives s the penalties of a configuration, which count in its store.
func (a *App) punish(s *engine.Snapshot, l *Loaded) {
	if p := a.box.Penalties(l.Config.Penalties, s.Store, l.Policy.Spares); p != nil {
		s.Penalties = p
	}
}
