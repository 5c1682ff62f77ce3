package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A link is what a store is connected to: one server, or the nodes of a Cluster.
type link struct {
	store   *Store
	single  *line // nil for a Cluster
	cluster *goredis.ClusterClient

	mu    sync.Mutex
	lines map[*goredis.Client]*line
	nodes map[string]*goredis.Client // by address
}

// mostLines is how many nodes are kept in mind. Nodes that left are forgotten with all others.
const mostLines = 2000

func (s *Store) linkSingle(t *target) *link {
	return &link{store: s, single: &line{store: s, client: t.single(), merge: true}}
}

func (s *Store) linkCluster(t *target) *link {
	k := &link{store: s, lines: map[*goredis.Client]*line{}, nodes: map[string]*goredis.Client{}}
	k.cluster = t.cluster(func(addr string, c *goredis.Client) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.nodes) >= mostLines {
			clear(k.nodes)
			clear(k.lines)
		}
		k.nodes[addr] = c
	})
	return k
}

func (k *link) close() error {
	if k.single != nil {
		return k.single.client.Close()
	}
	return k.cluster.Close()
}

// line returns the way to the server that holds key.
func (k *link) line(ctx context.Context, key string) (*line, error) {
	if k.single != nil {
		return k.single, nil
	}
	c, err := k.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return k.lineOf(c), nil
}

func (k *link) lineOf(c *goredis.Client) *line {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[c]
	if l == nil {
		l = &line{store: k.store, client: c}
		k.lines[c] = l
	}
	return l
}

// lineTo returns the way to the node at addr, or nil if it is not known yet.
func (k *link) lineTo(addr string) *line {
	k.mu.Lock()
	c := k.nodes[addr]
	k.mu.Unlock()
	if c == nil {
		return nil
	}
	return k.lineOf(c)
}

// errSpread is what a job comes to whose counters lie in several slots of a Cluster.
var errSpread = errors.New("the counters lie in several slots")

// mostRedirects is how often a job that was not executed is sent elsewhere.
const mostRedirects = 3

// run has j executed where its counters are, and waits for it until the moment given.
func (s *Store) run(ctx context.Context, j *job, until time.Duration) error {
	var to *line
	for tries := 0; ; tries++ {
		k := s.link.Load()
		if k.cluster != nil && !j.oneSlot() {
			return errSpread
		}
		l, err := to, error(nil)
		if l == nil {
			l, err = k.find(ctx, j, until)
		}
		if err == nil {
			err = l.do(ctx, j, until)
		}
		if err == nil {
			return nil
		}
		again := false
		if tries < mostRedirects && j.state.Load() != abandoned {
			to, again, err = s.redirect(k, j, err, until)
		}
		switch {
		case err == nil && !again:
			return nil
		case !again:
			return s.fault(j, err)
		}
		j.again()
	}
}

// find is line, bounded in time: a Cluster may have to be asked for its nodes first.
func (k *link) find(ctx context.Context, j *job, until time.Duration) (*line, error) {
	if k.single != nil {
		return k.single, nil
	}
	ctx, cancel := context.WithTimeout(ctx, until-k.store.clock())
	defer cancel()
	return k.line(ctx, j.calls[0].key)
}

// redirect follows err, if it is one that a server gives which has not executed j. It reports whether j
// is to be sent again, and where to if not by its key; else the error that remains, none if j is done.
func (s *Store) redirect(k *link, j *job, err error, until time.Duration) (to *line, again bool, _ error) {
	moved, isMoved := goredis.IsMovedError(err)
	ask, isAsk := goredis.IsAskError(err)
	switch {
	case k.cluster == nil && (isMoved || isAsk || goredis.HasErrorPrefix(err, "CROSSSLOT")):
		s.becomeCluster(k)
		return nil, true, nil
	case isMoved:
		k.cluster.ReloadState(context.Background()) // in the background
		return k.lineTo(moved), true, nil
	case isAsk:
		if l := k.lineTo(ask); l != nil {
			return nil, false, l.ask(j, until)
		}
	case k.cluster != nil && (!isAnswer(err) || goredis.IsClusterDownError(err) || goredis.IsReadOnlyError(err)):
		k.cluster.ReloadState(context.Background()) // another node may have taken over
	}
	return nil, false, err
}

// becomeCluster puts a Cluster in the place of the single server that turned out to be one of its nodes.
func (s *Store) becomeCluster(k *link) {
	next := s.linkCluster(s.target)
	if !s.link.CompareAndSwap(k, next) {
		_ = next.close() // another caller was faster
		return
	}
	s.mu.Lock()
	s.former = append(s.former, k) // what is under way on it comes to its end
	s.mu.Unlock()
}

// ask executes j on a node that a slot is being moved to.
func (l *line) ask(j *job, until time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), until-l.store.clock())
	defer cancel()
	var b batch
	b.build(l.store, []*job{j}, l.store.override())
	b.whole()
	pipe := l.client.Pipeline()
	pipe.Do(ctx, "asking")
	cmd := goredis.NewIntSliceCmd(ctx, b.args...)
	_ = pipe.Process(ctx, cmd) // it only queues
	sent := l.store.clock()
	_, _ = pipe.Exec(ctx) // the command has its own error
	j.err = nil
	j.finish(l.store, cmd.Val(), cmd.Err())
	j.sent, j.came = sent, l.store.clock()
	return j.err
}

// fault says who could not do what.
func (s *Store) fault(j *job, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer in time: %w", err)
		if dial := s.target.dialer.failed.Load(); dial != nil {
			err = fmt.Errorf("%w; the last connection failed: %w", err, *dial)
		}
	case isStranger(err):
		err = fmt.Errorf("not a Redis server: %w", err)
	}
	return fmt.Errorf("redis %s: %s %d counters: %w", strings.Join(s.target.addrs, ","), opNames[j.calls[0].op], len(j.calls), err)
}

// isStranger reports whether err is what the client library says of an answer that is not RESP.
func isStranger(err error) bool {
	text := err.Error()
	return strings.Contains(text, "can't parse") || strings.Contains(text, "invalid reply")
}
