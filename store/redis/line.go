package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	flushers    = 2       // batches that are under way to a server at once
	mostJobs    = 128     // in one batch
	mostCalls   = 1024    // in one batch of several jobs
	mostPending = 1 << 16 // jobs that wait for a batch; callers wait no longer than the timeout
)

var errBusy = errors.New("too many callers wait")

// A line is the way to one server. Jobs that come while others are under way go together: nothing is
// waited for, and a caller that is alone sends its job itself.
type line struct {
	store  *Store
	client *goredis.Client
	merge  bool // one call of the script does for all jobs, whatever their slots

	mu       sync.Mutex
	pending  []*job
	spare    []*job // memory for pending
	flushing int    // batches under way
}

// do has j executed and waits for it until the moment given, or ctx's end. A caller that sends the
// batch itself does not see ctx being cancelled, only its deadline.
func (l *line) do(ctx context.Context, j *job, until time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	left := until - l.store.clock()
	if left <= 0 {
		return context.DeadlineExceeded
	}
	l.mu.Lock()
	if len(l.pending) >= mostPending {
		l.mu.Unlock()
		return errBusy
	}
	l.pending = append(l.pending, j)
	alone := l.flushing < flushers
	if alone {
		l.flushing++
	}
	l.mu.Unlock()
	if alone && until < l.store.clock()+l.store.timeout/2 {
		// Others may join the batch, and have more time.
		l.store.work.Go(l.drain)
		alone = false
	}
	if alone {
		l.flush(left)
		if l.rest() {
			l.store.work.Go(l.drain)
		}
	}
	return l.store.wait(ctx, j, left)
}

// wait waits for j to be done.
func (s *Store) wait(ctx context.Context, j *job, left time.Duration) error {
	select {
	case <-j.done:
		return j.err
	default:
	}
	t := s.timer(left)
	defer s.timers.Put(t)
	defer t.Stop()
	err := context.DeadlineExceeded
	select {
	case <-j.done:
		return j.err
	case <-t.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if j.state.CompareAndSwap(waiting, abandoned) {
		return err
	}
	<-j.done // it came this moment
	return j.err
}

func (s *Store) timer(d time.Duration) *time.Timer {
	if t, _ := s.timers.Get().(*time.Timer); t != nil {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// drain sends batch after batch until no job is pending.
func (l *line) drain() {
	for more := true; more; more = l.rest() {
		l.flush(l.store.timeout)
	}
}

// rest reports whether jobs are pending. If not, one flusher less is at work.
func (l *line) rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) > 0 {
		return true
	}
	l.flushing--
	return false
}

// flush sends a batch of what is pending, and tells its callers.
func (l *line) flush(timeout time.Duration) {
	f, _ := l.store.flushes.Get().(*flush)
	if f == nil {
		f = &flush{until: new(deadline)}
	}
	f.jobs = l.take(f.jobs[:0])
	if len(f.jobs) > 0 {
		f.until.begin(timeout)
		sent := l.store.clock()
		if l.merge {
			f.together(f.until, l)
		} else {
			f.bySlot(f.until, l)
		}
		if !f.until.again() {
			f.until = new(deadline) // whoever still has the other finds it ended
		}
		f.tell(l.store, sent)
	}
	clear(f.jobs)
	clear(f.batch.args)
	l.store.flushes.Put(f)
}

// take moves the jobs of the next batch to jobs, without those that nobody waits for.
func (l *line) take(jobs []*job) []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, calls := 0, 0
	for n < min(len(l.pending), mostJobs) && (n == 0 || calls+len(l.pending[n].calls) <= mostCalls) {
		j := l.pending[n]
		if j.owed || j.state.Load() == waiting {
			jobs, calls = append(jobs, j), calls+len(j.calls)
		}
		n++
	}
	rest := append(l.spare[:0], l.pending[n:]...)
	clear(l.pending)
	l.spare, l.pending = l.pending, rest
	return jobs
}

// A flush is a batch of jobs on its way.
type flush struct {
	jobs  []*job
	batch batch
	until *deadline
}

// A slotPart is what of a flush goes to one slot, by one call of the script.
type slotPart struct {
	jobs []*job
	cmd  *goredis.IntSliceCmd
}

// together executes all jobs by one call of the script, each as if it were alone.
func (f *flush) together(ctx context.Context, l *line) {
	answers, err := f.run(ctx, l, f.jobs)
	share(l.store, f.jobs, answers, err)
}

// share gives each of jobs its part of the answers.
func share(s *Store, jobs []*job, answers []int64, err error) {
	for _, j := range jobs {
		answers = j.finish(s, answers, err)
	}
}

// run calls the script. A server that does not know it is sent it once: it has executed nothing.
func (f *flush) run(ctx context.Context, l *line, jobs []*job) ([]int64, error) {
	b := &f.batch
	b.build(l.store, jobs, l.store.override())
	cmd := goredis.NewIntSliceCmd(ctx, b.args...)
	err := l.client.Process(ctx, cmd)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		b.whole()
		cmd = goredis.NewIntSliceCmd(ctx, b.args...)
		err = l.client.Process(ctx, cmd)
	}
	return cmd.Val(), err
}

// bySlot executes the jobs by one call of the script for each slot, all on one way.
func (f *flush) bySlot(ctx context.Context, l *line) {
	slices.SortStableFunc(f.jobs, func(a, b *job) int { return cmp.Compare(a.slot, b.slot) })
	if f.jobs[0].slot == f.jobs[len(f.jobs)-1].slot {
		answers, err := f.run(ctx, l, f.jobs)
		f.settle(ctx, l, f.jobs, answers, err)
		return
	}
	pipe := l.client.Pipeline()
	var parts []slotPart
	for from := 0; from < len(f.jobs); {
		to := from + 1
		for to < len(f.jobs) && f.jobs[to].slot == f.jobs[from].slot {
			to++
		}
		var b batch
		b.build(l.store, f.jobs[from:to], l.store.override())
		p := slotPart{f.jobs[from:to], goredis.NewIntSliceCmd(ctx, b.args...)}
		parts = append(parts, p)
		_ = pipe.Process(ctx, p.cmd) // it only queues
		from = to
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, p := range parts {
		answers, err := p.cmd.Val(), p.cmd.Err()
		if goredis.HasErrorPrefix(err, "NOSCRIPT") {
			answers, err = f.run(ctx, l, p.jobs)
		}
		f.settle(ctx, l, p.jobs, answers, err)
	}
}

// settle gives jobs of one slot their answers. While a slot moves its counters may be here and there:
// then nothing was executed, and each job is sent alone.
func (f *flush) settle(ctx context.Context, l *line, jobs []*job, answers []int64, err error) {
	if len(jobs) == 1 || !goredis.HasErrorPrefix(err, "TRYAGAIN") {
		share(l.store, jobs, answers, err)
		return
	}
	for i := range jobs {
		answers, err := f.run(ctx, l, jobs[i:i+1])
		share(l.store, jobs[i:i+1], answers, err)
	}
}

// errAnswer is an answer that the script does not give.
var errAnswer = errors.New("the answer has not the right length: not a Redis server?")

// finish takes j's part of the numbers, and returns the rest. It changes nothing of j that a caller who
// gave up may look at.
func (j *job) finish(s *Store, numbers []int64, err error) []int64 {
	j.answers = j.room[:0]
	for i := 0; i < len(j.calls) && err == nil; i++ {
		var a answer
		a, numbers, err = readAnswer(numbers, s.window(j.calls[i].limit))
		j.answers = append(j.answers, a)
	}
	if err == nil && len(numbers) == 0 {
		err = errAnswer
	}
	if err != nil {
		j.err = err
		return nil
	}
	j.now = numbers[len(numbers)-1]
	return numbers
}

// readAnswer takes the answer to a call, one to three numbers, and returns the rest.
func readAnswer(numbers []int64, window int64) (a answer, rest []int64, err error) {
	if len(numbers) < 1 {
		return a, nil, errAnswer
	}
	first, rest := numbers[0], numbers[1:]
	refused := first < 0
	if refused {
		first = -1 - first
	}
	a.left, a.reset = first/2, window
	if first%2 == 0 {
		if len(rest) < 1 {
			return a, nil, errAnswer
		}
		a.reset, rest = rest[0], rest[1:]
	}
	if refused {
		if len(rest) < 1 {
			return a, nil, errAnswer
		}
		a.retry, rest = rest[0], rest[1:]
	}
	return a, rest, nil
}

// tell lets the callers have their answers. What was granted to a caller that has gone is given back at
// once, and what may have been granted, for no answer came, when the server is back.
func (f *flush) tell(s *Store, sent time.Duration) {
	came := s.clock()
	for _, j := range f.jobs {
		j.sent, j.came = sent, came
		gone := !j.state.CompareAndSwap(waiting, finished)
		if j.calls[0].op == opTake && (gone || j.err != nil) && !isAnswer(j.err) {
			s.leases.owe(j.calls, came)
			if j.err == nil {
				s.leases.payNow()
			}
		}
		if !gone {
			j.done <- struct{}{}
		}
	}
}

// isAnswer reports whether err is what a server answered: then nothing was granted.
func isAnswer(err error) bool {
	_, ok := errors.AsType[goredis.Error](err)
	return ok
}
