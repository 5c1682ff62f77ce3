package ban

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

const (
	waitingOffences = 4096 // that are not judged yet; further ones are passed over and counted
	judges          = 8
	mostNames       = 1000 // of penalties that are counted
)

// A Box is where offences are judged, away from the requests. It outlives configurations, and is safe for
// concurrent use.
type Box struct {
	bans  *Bans
	told  func(Sentence)
	log   *slog.Logger
	queue chan offence

	passedOver atomic.Uint64
	failing    atomic.Bool

	mu    sync.Mutex
	count map[string]uint64 // bans by the penalty's name
}

// A Sentence is a ban that a penalty made.
type Sentence struct {
	Ban     weir.Ban
	Penalty string
	Client  weir.Client // as far as it is known who is banned: its address and network, or its API key
}

// NewBox returns a box that bans in b and tells of each ban, unless told is nil. Nothing is judged before Run.
func NewBox(b *Bans, told func(Sentence), log *slog.Logger) *Box {
	return &Box{bans: b, told: told, log: log, queue: make(chan offence, waitingOffences), count: map[string]uint64{}}
}

// Run judges until ctx is done.
func (b *Box) Run(ctx context.Context) {
	var work sync.WaitGroup
	for range judges {
		work.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case o := <-b.queue:
					b.note(o.judge(ctx))
				}
			}
		})
	}
	work.Wait()
}

// note logs that offences cannot be judged, or can again.
func (b *Box) note(err error) {
	switch {
	case err != nil && !b.failing.Swap(true):
		b.log.Warn("offences are not punished", "err", err)
	case err == nil && b.failing.Swap(false):
		b.log.Info("offences are punished again")
	}
}

// banned counts a ban and tells of it.
func (b *Box) banned(o *offence, ban *weir.Ban) {
	b.mu.Lock()
	if _, known := b.count[o.penalty.name]; known || len(b.count) < mostNames {
		b.count[o.penalty.name]++
	}
	b.mu.Unlock()
	if b.told == nil {
		return
	}
	c := weir.Client{APIKey: o.subject.Key, Prefix: o.subject.Network, Addr: o.subject.Network.Addr()}
	b.told(Sentence{*ban, o.penalty.name, c})
}

// Counts are how many bans each penalty made, by its name, since the start.
func (b *Box) Counts() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.count)
}

// PassedOver is how many offences were not counted since too many waited.
func (b *Box) PassedOver() uint64 { return b.passedOver.Load() }

// Penalties are those of one configuration. They implement engine.Penalties.
type Penalties struct {
	box    *Box
	list   []penalty
	store  weir.Store
	spares func(*weir.Client) bool
}

// Penalties returns what bans as the configuration's penalties say, or nil if there are none. Offences are
// counted in s; whom spares reports is never banned.
func (b *Box) Penalties(from []config.Penalty, s weir.Store, spares func(*weir.Client) bool) *Penalties {
	if len(from) == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &Penalties{b, penalties(from), s, spares}
	for i := range p.list {
		if len(b.count) < mostNames {
			b.count[p.list[i].name] += 0 // an alert on the increase needs to see the beginning
		}
	}
	return p
}

// Note has the offences of a decision judged, away from the request. It waits for nobody.
func (p *Penalties) Note(now time.Time, d *weir.Decision, o weir.Outcome) {
	if d.Ban != nil {
		return
	}
	for i := range p.list {
		if !p.list[i].counts(d, &o) {
			continue
		}
		s, ok := subjectOf(p.list[i].per, &d.Client)
		if !ok || p.spares(&d.Client) {
			continue
		}
		select {
		case p.box.queue <- offence{p, &p.list[i], s, now}:
		default:
			p.box.passedOver.Add(1)
		}
	}
}
