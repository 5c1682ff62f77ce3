package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirgate/weir/admin"
)

// The replicas, and the limit that they count.
const (
	tenWeirs  = 10
	asks      = 600 // of one client, round the replicas
	oneLimit  = 50
	ownMemory = ""
	nobody    = "127.0.0.1:1" // where no Redis listens
)

// A fleet is ten Weirs with one configuration.
type fleet []*replica

// startFleet starts ten Weirs that share the Redis at addr, or, with ownMemory, nothing.
func (s *stage) startFleet(ctx context.Context, name, addr string) (f fleet, err error) {
	defer s.voice.hint("starting ten Weirs")()
	yaml := fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: \"http://%s\"\nclient: {path: [{name: edge, cidrs: [127.0.0.1]}]}\n"+
		"rules:\n  - {name: api, path: /api, limits: [{rate: %d/1h, per: client}]}\n  - {name: open, path: /open, limits: [{rate: 1000000/1h, per: client}]}\n", s.service.addr, oneLimit)
	if addr != ownMemory { // the timeout is generous: one machine plays all parts here
		yaml += fmt.Sprintf("store:\n  redis: {url: \"redis://%s\", timeout: 5s}\n  replicas: %d\n", addr, tenWeirs)
	}
	for i := range tenWeirs {
		dir := fmt.Sprintf("data_dir: %q\n", s.path(fmt.Sprintf("%s-%d", name, i)))
		r, err := startReplica(ctx, s.dir, fmt.Sprintf("%s-%d", name, i), dir+yaml)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f = append(f, r)
	}
	return f, nil
}

func (f fleet) close() error {
	var errs []error
	for _, r := range f {
		r.stop()
	}
	for _, r := range f {
		errs = append(errs, <-r.done)
	}
	return errors.Join(errs...)
}

// askAll has one client ask all ten in turn, many at a time.
func (s *stage) askAll(ctx context.Context, f fleet, client string) (tally, error) {
	return s.many(ctx, asks, 16, func(i int) visit { return visit{to: f[i%len(f)].front, path: "/api", from: client} })
}

// tenReplicas asks ten Weirs apart, and ten that share a Redis.
func tenReplicas(ctx context.Context, s *stage) (err error) {
	s.voice.say("One client asks ten Weirs in turn, %s times, against %d an hour:", count(asks), oneLimit)
	apart, err := s.grants(ctx, "memory", ownMemory)
	if err != nil {
		return err
	}
	s.voice.table([]string{"each with its own memory", count(apart.passed) + " pass"})
	s.want("requests that ten memories grant", apart.passed, tenWeirs*oneLimit)
	server, err := startRedis(s.path("redis"))
	if errors.Is(err, errNoRedis) {
		s.inPart = true
		s.voice.say("Sharing one Redis: not shown, since there is no redis-server on the PATH. Ten that share one grant %d, exactly.", oneLimit)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	shared, err := s.grants(ctx, "shared", server.addr)
	if err != nil {
		return err
	}
	s.voice.table([]string{"sharing one Redis", count(shared.passed) + " pass"})
	s.want("requests that ten grant which share a Redis", shared.passed, oneLimit)
	return nil
}

// grants starts ten Weirs, asks them, and ends them.
func (s *stage) grants(ctx context.Context, name, addr string) (t tally, err error) {
	f, err := s.startFleet(ctx, name, addr)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	return s.askAll(ctx, f, "203.0.113.60")
}

// storeHealth asks a Weir how its store is.
func storeHealth(ctx context.Context, r *replica) (admin.StoreHealth, error) {
	var status admin.Status
	err := r.question(ctx, http.MethodGet, "/api/v1/status", &status)
	return status.Store, err
}
