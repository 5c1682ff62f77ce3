package middleware

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// hold keeps the asker for as long as the rule says, or not at all if too many are held already.
func (m *Middleware) hold(w http.ResponseWriter, r *http.Request, d *weir.Decision) {
	client := d.Client.APIKey
	if client == "" {
		client = d.Client.Key()
	}
	ctx, stop := watch(w, r)
	defer stop()
	began := time.Now()
	if !m.tarpit.Hold(ctx, d.Rule.Name, client, d.Rule.Tarpit) {
		d.Action, d.Reason = weir.Reject, weir.TooManyHeld
		return
	}
	age(d, time.Since(began))
}

// age lets d's waits count down by what has passed since it was made. A refusal stays one.
func age(d *weir.Decision, by time.Duration) {
	for i := range d.Statuses {
		s := &d.Statuses[i]
		s.ResetAfter = max(s.ResetAfter-by, 0)
		if s.RetryAfter > 0 {
			s.RetryAfter = max(s.RetryAfter-by, 1)
		}
	}
}

// maxWatched is how much of a held asker's body is read, in bytes.
const maxWatched = 64 << 10

// watch returns a context that ends when the asker goes away. Over HTTP/1 net/http notices that only
// once the body was read, so up to maxWatched bytes of it are, unless the asker waits to be told to go
// on. The returned function ends the reading, and with it the connection if the body was not over.
func watch(w http.ResponseWriter, r *http.Request) (ctx context.Context, stop func()) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || r.Header["Expect"] != nil {
		return r.Context(), func() {}
	}
	ctx, gone := context.WithCancel(r.Context())
	var reading sync.WaitGroup
	read := make(chan struct{})
	reading.Go(func() {
		defer close(read)
		if _, err := io.CopyN(io.Discard, r.Body, maxWatched); err != nil && err != io.EOF {
			gone()
		}
	})
	return ctx, func() {
		defer gone()
		select {
		case <-read:
		default:
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(longAgo)
			reading.Wait()
		}
	}
}
