package redis

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A windowOp is what is to be done with the counters of a tally.
type windowOp uint8

const (
	opCount  windowOp = iota // INCRBY and EXPIRE
	opLook                   // GET
	opForget                 // DEL
)

// A tally is what one caller waits for.
type tally struct {
	op     windowOp
	counts []count
	err    error
	state  atomic.Uint32 // waiting, finished or abandoned
	done   chan struct{}
}

// A count is one counter.
type count struct {
	key    string
	n      int64 // what is added
	expire int64 // seconds
	after  int64 // where it stands then
	known  bool  // it is not asked for: where it stands is known
	above  bool  // n would bring it above its limit
}

func newTally(size int) *tally {
	return &tally{counts: make([]count, 0, size), done: make(chan struct{}, 1)}
}

// idle reports whether there is nothing to ask Redis for.
func (t *tally) idle() bool {
	for i := range t.counts {
		if !t.counts[i].known {
			return false
		}
	}
	return true
}

// counting brings callers' tallies to Redis: those that come while others are under way go together. What
// was sent is never sent again, unless the server says that it did not execute it.
type counting struct {
	store *Store

	mu       sync.Mutex
	pending  []*tally
	flushing int // batches under way
}

// run has t done and waits for it, until ctx ends or the store's timeout is over.
func (c *counting) run(ctx context.Context, t *tally) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.idle() {
		return nil
	}
	if err := c.add(t); err != nil {
		return err
	}
	left := c.store.timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	err := context.DeadlineExceeded
	select {
	case <-t.done:
		return t.err
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if t.state.CompareAndSwap(waiting, abandoned) {
		return err
	}
	<-t.done // it came this moment
	return t.err
}

// add puts t among what is to be sent, and sees to it that somebody sends it.
func (c *counting) add(t *tally) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) >= mostPending {
		return errBusy
	}
	c.pending = append(c.pending, t)
	if c.flushing < flushers {
		c.flushing++
		c.store.work.Go(c.drain)
	}
	return nil
}

// drain sends batch after batch until nothing is pending.
func (c *counting) drain() {
	for {
		batch := c.next()
		if batch == nil {
			return
		}
		c.flush(batch)
		for _, t := range batch {
			if t.state.CompareAndSwap(waiting, finished) {
				t.done <- struct{}{}
			}
		}
	}
}

// next returns the tallies of the next batch that somebody waits for. If there are none, one flusher less
// is at work.
func (c *counting) next() []*tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*tally
	taken, counters := 0, 0
	for _, t := range c.pending {
		if len(batch) == mostJobs || len(batch) > 0 && counters+len(t.counts) > mostCalls {
			break
		}
		taken++
		if t.state.Load() == waiting {
			batch, counters = append(batch, t), counters+len(t.counts)
		}
	}
	left := copy(c.pending, c.pending[taken:])
	clear(c.pending[left:])
	c.pending = c.pending[:left]
	if batch == nil {
		c.flushing--
	}
	return batch
}

// flush asks Redis once for all of batch.
func (c *counting) flush(batch []*tally) {
	ctx, cancel := context.WithTimeout(context.Background(), c.store.timeout)
	defer cancel()
	k := c.store.link.Load()
	pipe := k.pipeline()
	var asked []question
	for _, t := range batch {
		for i := range t.counts {
			if at := &t.counts[i]; !at.known {
				asked = append(asked, enqueue(ctx, pipe, t.op, at))
			}
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, t := range batch {
		for i := range t.counts {
			if t.counts[i].known {
				continue
			}
			if err := c.settle(ctx, k, t.op, &t.counts[i], asked[0]); err != nil && t.err == nil {
				t.err = err
			}
			asked = asked[1:]
		}
	}
}

func (k *link) pipeline() goredis.Pipeliner {
	if k.single != nil {
		return k.single.client.Pipeline()
	}
	return k.cluster.Pipeline()
}

// A question is the command whose answer is the count.
type question struct {
	number *goredis.IntCmd
	text   *goredis.StringCmd // opLook
}

// enqueue queues the commands for one counter.
func enqueue(ctx context.Context, pipe goredis.Pipeliner, op windowOp, at *count) (q question) {
	switch op {
	case opLook:
		q.text = goredis.NewStringCmd(ctx, "get", at.key)
		_ = pipe.Process(ctx, q.text) // it only queues, here and below
	case opForget:
		q.number = goredis.NewIntCmd(ctx, "del", at.key)
		_ = pipe.Process(ctx, q.number)
	default:
		q.number = goredis.NewIntCmd(ctx, "incrby", at.key, at.n)
		_ = pipe.Process(ctx, q.number)
		_ = pipe.Process(ctx, goredis.NewIntCmd(ctx, "expire", at.key, at.expire))
	}
	return q
}

// settle notes the answer for one counter, or asks elsewhere if the server did not execute the command.
func (c *counting) settle(ctx context.Context, k *link, op windowOp, at *count, q question) error {
	err := q.answer(at)
	if err == nil {
		return nil
	}
	moved, isMoved := goredis.IsMovedError(err)
	askAt, isAsk := goredis.IsAskError(err)
	switch {
	case k.cluster == nil && (isMoved || isAsk || goredis.HasErrorPrefix(err, "CROSSSLOT")):
		c.store.becomeCluster(k)
		return c.again(ctx, c.store.link.Load().pipeline(), op, at)
	case isMoved:
		k.cluster.ReloadState(context.Background()) // in the background
		if l := k.lineTo(moved); l != nil {
			return c.again(ctx, l.client.Pipeline(), op, at)
		}
	case isAsk:
		if l := k.lineTo(askAt); l != nil {
			return c.again(ctx, asking{l.client.Pipeline()}, op, at)
		}
	case k.cluster != nil && (!isAnswer(err) || goredis.IsClusterDownError(err) || goredis.IsReadOnlyError(err)):
		k.cluster.ReloadState(context.Background()) // another node may have taken over
	}
	return err
}

// again sends once more what was not executed.
func (c *counting) again(ctx context.Context, pipe goredis.Pipeliner, op windowOp, at *count) error {
	q := enqueue(ctx, pipe, op, at)
	_, _ = pipe.Exec(ctx) // each command has its own error
	return q.answer(at)
}

// asking is a pipeline to a node that a slot is being moved to.
type asking struct{ goredis.Pipeliner }

func (a asking) Process(ctx context.Context, cmd goredis.Cmder) error {
	_ = a.Pipeliner.Do(ctx, "asking") // it only queues
	return a.Pipeliner.Process(ctx, cmd)
}

// answer notes where the counter stands.
func (q question) answer(at *count) error {
	if q.text != nil {
		text, err := q.text.Result()
		if errors.Is(err, goredis.Nil) {
			return nil
		}
		if err == nil {
			at.after, err = strconv.ParseInt(text, 10, 64)
		}
		return err
	}
	var err error
	at.after, err = q.number.Result()
	if goredis.HasErrorPrefix(err, "increment or decrement would overflow") {
		at.after, err = mostAfter, nil
	}
	return err
}
