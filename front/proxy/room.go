package proxy

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirgate/weir/front/proxy/guard"
)

// Crowded is the fault of a connection that is closed for want of room. [Options.Refused] may be told of very
// many.
const Crowded = "too_many_connections"

// A room bounds the connections of clients. When it is full, those that have waited longest without a request
// under way make room: clients that keep a connection expect that it may end, and an attacker who holds many
// loses them first. Where all are at work, the newcomer is turned away.
type room struct {
	most  int // 0: no bound
	proxy *Proxy

	mu     sync.Mutex
	guests map[*guest]struct{}
	busy   time.Time // until when all are taken to be at work
	said   time.Time // when the log was told last that there is no room
	closed int       // connections since then
}

// A guest is a connection in a room.
type guest struct {
	net.Conn
	room *room
	// waits is since when it has had no request under way, in Unix nanoseconds; negative until its first
	// request; 0 while one is answered.
	waits atomic.Int64
}

// inRoom is a listener whose connections are guests.
type inRoom struct {
	net.Listener
	room *room
}

// Accept returns the next connection that there is room for. Where the system has no descriptor left, which
// net/http waits for to change, room is made as well.
func (l inRoom) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.room.squeeze()
			}
			return nil, err
		}
		g := &guest{Conn: c, room: l.room}
		g.waits.Store(-time.Now().UnixNano())
		if l.room.enter(g) {
			return g, nil
		}
		c.Close()
	}
}

// enter lets g in if there is room for it, or if room can be made.
func (r *room) enter(g *guest) bool {
	if r.full() && r.squeeze() == 0 {
		r.turnAway(g)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guests[g] = struct{}{}
	return true
}

func (r *room) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most > 0 && len(r.guests) >= r.most
}

// leave gives g's place back.
func (r *room) leave(g *guest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.guests, g)
}

// squeeze closes some of those that wait, and returns how many.
func (r *room) squeeze() (n int) {
	for _, w := range r.waiting() {
		if w.guest.waits.CompareAndSwap(w.since, 0) { // no request came meanwhile
			w.guest.Close()
			r.turnAway(w.guest)
			n++
		}
	}
	return n
}

// A waiter is a guest without a request under way, as it was when it was looked at.
type waiter struct {
	guest *guest
	since int64
}

// busyTime is for how long nobody is looked for again where all were at work: to look at a hundred thousand
// takes milliseconds, and newcomers may come faster than that.
const busyTime = 10 * time.Millisecond

// waiting returns the sixteenth of the room that has waited longest: of those who never asked for anything,
// or of those who did, whichever are more.
func (r *room) waiting() []waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.busy) {
		return nil
	}
	var fresh, idle []waiter
	for g := range r.guests {
		switch v := g.waits.Load(); {
		case v < 0:
			fresh = append(fresh, waiter{g, v})
		case v > 0:
			idle = append(idle, waiter{g, v})
		}
	}
	all := fresh
	if len(idle) > len(fresh) {
		all = idle
	}
	if len(all) == 0 {
		r.busy = now.Add(busyTime)
	}
	slices.SortFunc(all, func(a, b waiter) int { return cmp.Compare(max(a.since, -a.since), max(b.since, -b.since)) })
	return all[:min(len(all), 1+len(r.guests)/16)]
}

// sayEvery is how often the log is told that there is no room.
const sayEvery = time.Minute

// turnAway notes that g is closed for want of room.
func (r *room) turnAway(g *guest) {
	r.proxy.refused(Crowded, g.RemoteAddr().String())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	if now := time.Now(); now.Sub(r.said) >= sayEvery {
		r.proxy.options.Logger.Warn("no room for further connections: those without a request are closed, the oldest first",
			"open", len(r.guests), "most", r.most, "closed", r.closed)
		r.said, r.closed = now, 0
	}
}

// turn notes a change of the connection's state.
func (g *guest) turn(s http.ConnState) {
	switch s {
	case http.StateIdle:
		g.waits.Store(time.Now().UnixNano())
	case http.StateActive, http.StateHijacked:
		g.waits.Store(0)
	}
}

// Close gives the place back.
func (g *guest) Close() error {
	g.room.leave(g)
	return g.Conn.Close()
}

// NetConn returns the connection below.
func (g *guest) NetConn() net.Conn { return g.Conn }

// follow is told of every change of a connection's state.
func follow(c net.Conn, s http.ConnState) {
	guard.Follow(c, s)
	if g, ok := guard.Below[*guest](c); ok {
		g.turn(s)
	}
}
