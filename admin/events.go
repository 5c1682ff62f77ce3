package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/weirgate/weir/internal/plain"
)

const (
	eventEvery   = time.Second
	mostRefusals = 20              // told of in one second
	eventWait    = 5 * time.Second // for a listener that takes nothing
	catchUp      = 5               // seconds that are told of late
)

// events tells a listener, each second until he goes, of the seconds that are over, of new refusals and of
// what the breaker did.
func (s *Server) events(c *call) (any, error) {
	select {
	case s.listeners <- struct{}{}:
		defer func() { <-s.listeners }()
	default:
		return nil, problem(http.StatusServiceUnavailable, "busy", fmt.Sprintf("%d others listen already", mostListeners))
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx in between would keep the events
	if c.r.Method == http.MethodHead {
		return nil, nil // there is nothing to listen to
	}
	l := listener{s: s, w: c.w, control: http.NewResponseController(c.w)}
	_, l.refusal = s.o.Journal.RefusedAfter(0, 0)
	l.second, l.breaker = s.o.Now().Add(-eventEvery), s.o.Now()
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for l.tell() == nil {
		select {
		case <-c.r.Context().Done():
			return nil, nil
		case <-tick.C:
		}
	}
	return nil, nil
}

// A listener is told what is new to him.
type listener struct {
	s       *Server
	w       http.ResponseWriter
	control *http.ResponseController

	second  time.Time // the last that he was told of
	refusal uint64    // number of the newest decision then
	breaker time.Time // the last change that he was told of
}

// tell writes what is new. An error says that the listener has gone.
func (l *listener) tell() error {
	_ = l.control.SetWriteDeadline(time.Now().Add(eventWait)) // where it cannot be set, nothing waits
	if _, err := fmt.Fprint(l.w, ": weir\n\n"); err != nil {
		return err
	}
	j := l.s.o.Journal
	for _, p := range j.Series(catchUp) {
		if p.Time.After(l.second) {
			l.second = p.Time
			if err := l.write("point", p); err != nil {
				return err
			}
		}
	}
	refusals, newest := j.RefusedAfter(l.refusal, mostRefusals)
	l.refusal = newest
	for _, e := range refusals {
		if err := l.write("refused", e); err != nil {
			return err
		}
	}
	if err := l.tellBreaker(j.BreakerHistory()); err != nil {
		return err
	}
	return l.control.Flush()
}

// tellBreaker writes the changes that are new, which come newest first.
func (l *listener) tellBreaker(changes []BreakerChange) error {
	for i := len(changes) - 1; i >= 0; i-- {
		if !changes[i].Time.After(l.breaker) {
			continue
		}
		l.breaker = changes[i].Time
		if err := l.write("breaker", changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// write writes one event.
func (l *listener) write(name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(l.w, "event: %s\ndata: %s\n\n", name, plain.JSON(nil, text))
	}
	return err
}
