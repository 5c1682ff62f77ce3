package incidents_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/middleware"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
)

// A road is the whole way of a request, from the bytes on a connection to those that come back, with
// a clock that stands until a script moves it. It lives inside one synctest bubble.
type road struct {
	script  *script
	began   time.Time
	skipped atomic.Int64 // nanoseconds that the script's clock is ahead of the bubble's
	store   *memory.Store
	engine  *engine.Engine
	fronts  map[string]chan net.Conn
	servers []*http.Server

	open []*call       // without an answer
	let  chan struct{} // closed when the upstream may answer those
	told time.Time     // when the last refusal said to come back; zero if it did not say
}

// walk carries out s and returns everything that is not as s says.
func walk(s *script) []error {
	r := &road{script: s, began: time.Now(), fronts: map[string]chan net.Conn{}, let: make(chan struct{})}
	snapshot, problems, maxKeys := r.compile("weir.yaml")
	if config.HasErrors(problems) {
		return []error{fmt.Errorf("%s: %s", s.name, tell(problems))}
	}
	r.store = memory.New(memory.Options{MaxKeys: maxKeys})
	defer r.store.Close()
	snapshot.Store = r.store
	r.engine = engine.New(snapshot, journal.New(journal.Options{Rules: snapshot.Policy.Names()}), r.now)
	defer r.close()
	var wrong []error
	for i := range s.steps {
		if err := r.step(&s.steps[i]); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", s.steps[i].at, err))
		}
	}
	return wrong
}

// compile returns what the policy of that name puts in force, but for the store.
func (r *road) compile(name string) (s *engine.Snapshot, problems []config.Problem, maxKeys int) {
	c, problems := config.Parse(name, r.script.files[name], nil)
	problems = slices.DeleteFunc(problems, nothingServed)
	if config.HasErrors(problems) {
		return nil, problems, 0
	}
	p, more := policy.Compile(c)
	return &engine.Snapshot{Policy: p, Verifier: keyring{}, Respond: respond.New(respond.Options{
		KeyHeader: c.Keys.Header,
		Headers:   c.Headers, LegacyReset: c.LegacyReset, ProblemTypeBase: c.ProblemTypeBase, HTML: c.HTML, AllowOrigin: c.CORS.AllowOrigin,
	})}, append(problems, more...), c.Store.Memory.MaxKeys
}

// nothingServed is the warning that a policy without a front is given; here the runner is the front.
func nothingServed(p config.Problem) bool { return p.Warning && p.Field == "listen" }

func tell(problems []config.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

func (r *road) close() {
	for _, c := range r.open {
		c.near.Close()
	}
	for _, s := range r.servers {
		s.Close()
	}
	time.Sleep(lingering)
}

// lingering is more than net/http waits, on the bubble's clock, before it closes a connection whose
// request it did not read to the end.
const lingering = time.Second

func (r *road) now() time.Time { return time.Now().Add(time.Duration(r.skipped.Load())) }

// longest is how far the bubble's clock, and with it every timer, goes along; what is more is skipped.
const longest = time.Hour

// advance moves the clock.
func (r *road) advance(to time.Time) error {
	by := to.Sub(r.now())
	if by < 0 {
		return fmt.Errorf("the clock does not go back: it is %s", r.now().Sub(r.began))
	}
	r.skipped.Add(int64(max(by-longest, 0)))
	time.Sleep(min(by, longest))
	synctest.Wait()
	return nil
}

func (r *road) asTold() (time.Time, error) {
	if r.told.IsZero() {
		return time.Time{}, errors.New("nobody was told to come back")
	}
	return r.told, nil
}

func (r *road) step(st *step) error {
	at, err := st.when(r)
	if err == nil {
		err = r.advance(at)
	}
	if err != nil {
		return err
	}
	v := view{road: r}
	switch st.do {
	case ask:
		v.replies, err = r.ask(&st.ask)
	case release:
		close(r.let)
		r.let = make(chan struct{})
		v.replies = r.collect()
	case held:
		v.replies = r.collect()
	case leave:
		r.hangUp()
		return nil
	case reload, load:
		v.replies, err = r.load(st)
	case explain:
		v.decision, v.policy, err = r.explain(&st.ask)
	}
	if err != nil {
		return err
	}
	return st.judge(&v)
}

// judge compares what was seen with what the script says.
func (st *step) judge(v *view) error {
	var wrong []string
	if got, ok := compare(v.replies, st.want); !ok {
		wrong = append(wrong, fmt.Sprintf("got %s, want %s", got, show(st.want)))
	}
	if n := len(v.replies); n > 0 {
		v.last = &v.replies[n-1]
	} else if st.want != nil {
		v.last = new(reply)
	}
	for i := range st.checks {
		if failed := st.checks[i].failed(v); failed != "" {
			wrong = append(wrong, failed)
		}
	}
	if wrong == nil {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// ask sends all of q and returns the replies in the order of the questions.
func (r *road) ask(q *request) ([]reply, error) {
	if q.parallel {
		return r.together(q), nil
	}
	var replies []reply
	for i := range q.n {
		again := q.obeying && i > 0 && replies[i-1].what == "429"
		if i > 0 {
			next := r.now().Add(q.every)
			if again {
				next = r.told
			}
			if err := r.advance(next); err != nil {
				return replies, err
			}
		}
		asked := r.now()
		c := start(r.front(q.front), q, i, r.let)
		synctest.Wait()
		replies = append(replies, r.note(c, asked))
		if again && replies[i].what == "429" {
			return replies, fmt.Errorf("refused again after waiting as told, at %s", asked.Sub(r.began))
		}
	}
	return replies, nil
}

// together sends all of q at once.
func (r *road) together(q *request) []reply {
	asked, conns := r.now(), r.front(q.front)
	calls := make(chan *call, q.n)
	for i := range q.n {
		go func() { calls <- start(conns, q, i, r.let) }()
	}
	synctest.Wait()
	var replies []reply
	for range q.n {
		replies = append(replies, r.note(<-calls, asked))
	}
	return replies
}

// note returns c's reply and remembers what follows from it.
func (r *road) note(c *call, asked time.Time) reply {
	got := c.finished()
	got.at = asked
	if got.what == "held" {
		r.open = append(r.open, c)
	}
	if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err == nil {
		r.told = asked.Add(time.Duration(seconds) * time.Second)
	}
	return got
}

// collect returns the replies to those who had none, as far as they have one now.
func (r *road) collect() []reply {
	synctest.Wait()
	var replies []reply
	open := r.open
	r.open = nil
	for _, c := range open {
		if got := r.note(c, r.now()); got.what != "held" {
			replies = append(replies, got)
		}
	}
	return replies
}

// hangUp closes the connections of all who have no answer.
func (r *road) hangUp() {
	for _, c := range r.open {
		c.near.Close()
	}
	r.open = nil
	synctest.Wait()
}

// load judges a policy, and on reload puts it in force if nothing is wrong with it.
func (r *road) load(st *step) ([]reply, error) {
	if _, ok := r.script.files[st.file]; !ok {
		return nil, fmt.Errorf("no -- %s --", st.file)
	}
	s, problems, _ := r.compile(st.file)
	got := reply{what: "ok", text: tell(problems)}
	switch {
	case config.HasErrors(problems):
		got.what = "refused"
		return []reply{got}, nil
	case len(problems) > 0 && st.do == load:
		got.what = "warned"
	}
	if st.do == reload {
		s.Store = r.store
		r.engine.Swap(s)
	}
	return []reply{got}, nil
}

// explain decides q without counting it.
func (r *road) explain(q *request) (*weir.Decision, *policy.Policy, error) {
	target, err := url.ParseRequestURI(q.target)
	if err != nil {
		return nil, nil, err
	}
	req := weir.Request{
		Front: q.front, Method: q.method, Host: "example.com", Path: target.EscapedPath(), Query: target.RawQuery,
		Scheme: "http", Header: http.Header{}, Trace: true,
	}
	req.Peer, req.Unix = weir.ParsePeer(remote(q.peer, 0))
	for _, line := range q.header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	s := r.engine.Current().Peeking()
	return r.engine.Decide(context.Background(), s, req), s.Policy, nil
}

// front returns the way in of that name: each is a middleware of its own before the one engine.
func (r *road) front(name string) chan<- net.Conn {
	if conns, ok := r.fronts[name]; ok {
		return conns
	}
	conns := make(chan net.Conn)
	r.fronts[name] = conns
	m := middleware.New(r.engine, middleware.Options{Front: name})
	s := newServer(m.Wrap(http.HandlerFunc(serve)))
	r.servers = append(r.servers, s)
	go func() { _ = s.Serve(listener{conns, make(chan struct{})}) }()
	return conns
}

// compare reports whether replies are those of want, and shows them.
func compare(replies []reply, want []group) (got string, ok bool) {
	ok = len(replies) == count(want)
	rest := replies
	for _, g := range want {
		n := min(count([]group{g}), len(rest))
		left := group{}
		for _, r := range rest[:n] {
			left[r.what]++
		}
		rest = rest[n:]
		for what, times := range g {
			ok = ok && left[what] == times
		}
	}
	return show(runs(replies)), ok
}

// runs are the replies in their order, or if that is a long story in no order.
func runs(replies []reply) []group {
	var all []group
	total := group{}
	for _, r := range replies {
		total[r.what]++
		if n := len(all); n > 0 && all[n-1][r.what] > 0 {
			all[n-1][r.what]++
			continue
		}
		all = append(all, group{r.what: 1})
	}
	if len(all) > 8 {
		return []group{total}
	}
	return all
}

func show(groups []group) string {
	var parts []string
	for _, g := range groups {
		var one []string
		for what, n := range g {
			if n > 1 {
				what += " x" + strconv.Itoa(n)
			}
			one = append(one, what)
		}
		slices.Sort(one)
		parts = append(parts, strings.Join(one, ", "))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, " then ")
}

// field is a header's name as net/http keeps it.
func field(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
