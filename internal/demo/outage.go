package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/weirgate/weir/admin"
)

// lostStore kills the Redis of ten Weirs under traffic, and brings it back.
func lostStore(ctx context.Context, s *stage) (err error) {
	server, err := startRedis(s.path("redis"))
	if errors.Is(err, errNoRedis) {
		return s.absentStore(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	f, err := s.startFleet(ctx, "outage", server.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	s.voice.say("Ten Weirs share a Redis (and wait up to 5 s for it, since one machine plays every part here; 15 ms is the default). Against %d an hour, a new client each time:", oneLimit)
	steady := s.startSteady(ctx, f)
	err = s.killAndReturn(ctx, f, server)
	t, failed := steady.end()
	s.voice.say("Meanwhile another client never stopped asking, all ten: %s requests, %s refused or failed; the slowest took %s.", count(t.passed+t.refused+t.other), count(t.refused+t.other), milliseconds(t.slowest))
	s.want("requests of the steady client that are refused or failed", t.refused+t.other, 0)
	return errors.Join(err, failed)
}

// killAndReturn tells what ten Weirs grant before, during and after an outage.
func (s *stage) killAndReturn(ctx context.Context, f fleet, server *redisServer) error {
	if err := s.oneCount(ctx, f, "203.0.113.70", "Redis answers"); err != nil {
		return err
	}
	if err := server.close(); err != nil {
		return err
	}
	if err := s.withoutStore(ctx, f, "203.0.113.71", "kill -9 to Redis"); err != nil {
		return err
	}
	took, err := s.bringBack(ctx, f, server)
	if err != nil {
		return err
	}
	if err := s.oneCount(ctx, f, "203.0.113.72", fmt.Sprintf("%.1f s after its return", took.Seconds())); err != nil {
		return err
	}
	return s.tellBreaker(ctx, f[0])
}

// bringBack starts the Redis again, and returns how long after that all Weirs ask it.
func (s *stage) bringBack(ctx context.Context, f fleet, server *redisServer) (time.Duration, error) {
	defer s.voice.hint("Redis starts again")()
	if err := server.start(); err != nil {
		return 0, err
	}
	back := time.Now()
	if err := await(ctx, func() (bool, error) { return allClosed(ctx, f) }); err != nil {
		return 0, fmt.Errorf("ten Weirs do not all ask Redis again: %w", err)
	}
	return time.Since(back), nil
}

// oneCount asks ten Weirs that share a count.
func (s *stage) oneCount(ctx context.Context, f fleet, client, when string) error {
	t, err := s.askAll(ctx, f, client)
	s.voice.table([]string{when, count(t.passed) + " of " + count(asks) + " pass", "shared count"})
	s.want("requests that pass ("+when+")", t.passed, oneLimit)
	return err
}

// withoutStore asks ten Weirs that cannot ask theirs: each grants its share.
func (s *stage) withoutStore(ctx context.Context, f fleet, client, when string) error {
	t, err := s.askAll(ctx, f, client)
	if err != nil {
		return err
	}
	s.voice.table([]string{when, count(t.passed) + " of " + count(asks) + " pass", fmt.Sprintf("ten shares of %d", oneLimit/tenWeirs)})
	s.wantAtMost("requests that pass without a Redis", t.passed, oneLimit)
	s.want("requests without a Redis that are neither passed nor refused", t.other, 0)
	var d admin.Decisions
	if err := f[0].question(ctx, http.MethodGet, "/api/v1/decisions?client="+url.QueryEscape(client+"/32"), &d); err != nil {
		return err
	}
	degraded := 0
	for _, e := range d.Decisions {
		if e.Degraded {
			degraded++
		}
	}
	s.voice.say("Nothing failed, and nothing is hushed up: of the first Weir's last %d decisions on that client, %d say \"degraded\": true.", len(d.Decisions), degraded)
	s.want("decisions that say degraded", degraded, len(d.Decisions))
	return nil
}

// absentStore shows what can be shown without a Redis: ten Weirs start without theirs.
func (s *stage) absentStore(ctx context.Context) (err error) {
	s.inPart = true
	s.voice.say("There is no redis-server on the PATH: its return is not shown. Ten Weirs that are configured with a Redis which is not there start all the same. Against %d an hour:", oneLimit)
	f, err := s.startFleet(ctx, "outage", nobody)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := s.withoutStore(ctx, f, "203.0.113.71", "Redis does not answer"); err != nil {
		return err
	}
	return s.tellBreaker(ctx, f[0])
}

// tellBreaker writes down when a Weir left its store alone, and asked it again.
func (s *stage) tellBreaker(ctx context.Context, r *replica) error {
	var h admin.StoreHealth
	err := await(ctx, func() (seen bool, err error) {
		h, err = storeHealth(ctx, r) // it is looked at every second
		return len(h.History) > 0 && h.History[0].Open == h.Open, err
	})
	if err != nil {
		return fmt.Errorf("the breaker's history has %v: %w", h.History, err)
	}
	s.voice.say("The breaker's history of the first Weir:")
	for i := len(h.History) - 1; i >= 0; i-- {
		c := h.History[i]
		what := "closed: Redis is asked again"
		if c.Open {
			what = "opened: " + c.Kind
		}
		s.voice.quote(c.Time.UTC().Format(time.TimeOnly) + "  " + what)
	}
	return nil
}

// allClosed reports whether every Weir of f asks its store again.
func allClosed(ctx context.Context, f fleet) (bool, error) {
	for _, r := range f {
		if h, err := storeHealth(ctx, r); err != nil || h.Open {
			return false, err
		}
	}
	return true, nil
}

// A steady is a client who goes on asking, one request after the other.
type steady struct {
	stop   context.CancelFunc
	asking sync.WaitGroup
	tally  tally
	failed error
}

// between is the pause of a steady client.
const between = 5 * time.Millisecond

func (s *stage) startSteady(ctx context.Context, f fleet) *steady {
	t := &steady{}
	ctx, t.stop = context.WithCancel(ctx)
	t.asking.Go(func() {
		for i := 0; pause(ctx, between) == nil; i++ {
			a, err := s.ask(context.WithoutCancel(ctx), visit{to: f[i%len(f)].front, path: "/open", from: "203.0.113.80"})
			if err != nil {
				t.failed = err
				return
			}
			t.tally.add(a)
		}
	})
	return t
}

// end stops the client, and returns what he got.
func (t *steady) end() (tally, error) {
	t.stop()
	t.asking.Wait()
	return t.tally, t.failed
}
