package proxy

import (
	"net/http"
	"time"
)

// A patient writer waits for an HTTP/2 stream's reader at most so long at a time. A reader that never
// opens its window would hold the stream, and what it has in flight, for ever.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
	timer   *time.Timer
}

func newPatient(w http.ResponseWriter, wait time.Duration) *patient {
	p := &patient{ResponseWriter: w, control: http.NewResponseController(w), wait: wait}
	p.timer = time.AfterFunc(wait, p.giveUp)
	p.timer.Stop()
	return p
}

// giveUp lets the write under way fail.
func (p *patient) giveUp() { _ = p.control.SetWriteDeadline(time.Unix(1, 0)) }

func (p *patient) stop() { p.timer.Stop() }

// Unwrap lets [http.ResponseController] reach what lies behind.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) Write(b []byte) (int, error) {
	p.timer.Reset(p.wait)
	defer p.timer.Stop()
	return p.ResponseWriter.Write(b)
}

// FlushError is what [http.ResponseController] calls.
func (p *patient) FlushError() error {
	p.timer.Reset(p.wait)
	defer p.timer.Stop()
	return p.control.Flush()
}
