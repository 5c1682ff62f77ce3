package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// PerSecond returns a store that counts limits per second in one store and all others in another
// (REDIS_PERSECOND). A request that has both asks the two at once.
func PerSecond(second, rest weir.Store) weir.Store { return perSecond{second, rest} }

type perSecond struct{ second, rest weir.Store }

func (p perSecond) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	var second, rest part
	for i := range hits {
		if hits[i].Limit.Window == time.Second {
			second.add(hits, i)
		} else {
			rest.add(hits, i)
		}
	}
	switch {
	case len(second.hits) == 0:
		return p.rest.Take(ctx, now, hits, out)
	case len(rest.hits) == 0:
		return p.second.Take(ctx, now, hits, out)
	}
	var asking sync.WaitGroup
	asking.Go(func() { second.take(ctx, now, p.second) })
	rest.take(ctx, now, p.rest)
	asking.Wait()
	second.tell(out)
	rest.tell(out)
	return errors.Join(second.err, rest.err)
}

// A part is the hits of a request that one of the stores is asked for.
type part struct {
	hits   []weir.Hit
	places []int // of the hits in the request
	out    []weir.Status
	err    error
}

func (p *part) add(hits []weir.Hit, place int) {
	p.hits, p.places = append(p.hits, hits[place]), append(p.places, place)
}

// take asks s. A panic is an error: it must not end the process.
func (p *part) take(ctx context.Context, now time.Time, s weir.Store) {
	defer func() {
		if v := recover(); v != nil {
			p.err = fmt.Errorf("store: panic: %v", v)
		}
	}()
	p.out = make([]weir.Status, len(p.hits))
	p.err = s.Take(ctx, now, p.hits, p.out)
}

// tell puts the statuses into their places.
func (p *part) tell(out []weir.Status) {
	for i, place := range p.places {
		out[place] = p.out[i]
	}
}
