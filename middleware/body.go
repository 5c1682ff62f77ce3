package middleware

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// A body is the body of an admitted request on its way in: bounded in length, and in how slowly it may come.
// It is read by one goroutine at a time.
type body struct {
	io.ReadCloser
	to     http.ResponseWriter // whose reader has a deadline
	pace   weir.Pace
	whole  bool // pace bounds the whole of it, not only a pause
	framed bool // gRPC messages

	fault  atomic.Pointer[bodyFault] // why the rest will not be read
	ended  atomic.Bool               // all of it was read
	asked  atomic.Int64              // next's own deadline in Unix nanoseconds, or 0
	read   int64
	waited time.Duration // in reads
}

// A bodyFault is what is wrong with a body.
type bodyFault struct {
	why    weir.Reason
	status int
}

func (f *bodyFault) Error() string { return string(f.why) }

// Read waits as long as the pace allows.
func (b *body) Read(p []byte) (int, error) {
	if b.ended.Load() || b.pace.Timeout == 0 {
		n, err := b.ReadCloser.Read(p)
		return b.note(b.check(p, n, err))
	}
	began := time.Now()
	until := began.Add(b.patience())
	_ = http.NewResponseController(b.to).SetReadDeadline(b.sooner(until)) // where there is none to set, nothing comes slowly
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(began)
	if errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(until) {
		err = &bodyFault{weir.BodyTooSlow, http.StatusRequestTimeout}
	}
	if err == io.EOF {
		_ = http.NewResponseController(b.to).SetReadDeadline(time.Time{}) // what is read next is another request
	}
	return b.note(b.check(p, n, err))
}

// check counts what was read. A body that only says that it is gRPC is broken: a message begins with a flag
// of 0 or 1.
func (b *body) check(p []byte, n int, err error) (int, error) {
	if b.framed && b.read == 0 && n > 0 && p[0] > 1 {
		return 0, &bodyFault{weir.BodyBroken, http.StatusBadRequest}
	}
	b.read += int64(n)
	return n, err
}

// sooner returns until, or the deadline that next has set, if that is before.
func (b *body) sooner(until time.Time) time.Time {
	if asked := b.asked.Load(); asked != 0 && asked < until.UnixNano() {
		return time.Unix(0, asked)
	}
	return until
}

// patience is how much longer the body may take to go on. A body that is inspected as a whole must be there
// within the time-out. Any other may pause for as long; what came before buys time for what comes after.
func (b *body) patience() time.Duration {
	grace, left := b.pace.Timeout, b.pace.Timeout
	if b.whole {
		grace, left = grace/2, left-b.waited
	}
	if b.pace.MinRate > 0 {
		earned := time.Duration(float64(b.read) / float64(b.pace.MinRate) * float64(time.Second))
		left = min(left, grace+earned-b.waited)
	}
	return max(left, 0)
}

// note remembers how the body ended.
func (b *body) note(n int, err error) (int, error) {
	var past *http.MaxBytesError
	var fault *bodyFault
	switch {
	case err == nil:
	case err == io.EOF:
		b.ended.Store(true)
	case errors.As(err, &past):
		b.fault.CompareAndSwap(nil, &bodyFault{weir.BodyTooLarge, http.StatusRequestEntityTooLarge})
	case errors.As(err, &fault):
		b.fault.CompareAndSwap(nil, fault)
	}
	return n, err
}

// receive puts x.body before the request's body, at most bound bytes long; 0 is no bound. A declared length
// is bounded by net/http.
func (x *exchange) receive(bound int64) {
	r := x.request
	x.body.ReadCloser, x.body.to, x.body.pace = r.Body, x.w.to, x.call.Decision.Rule.Pace
	if bound > 0 && r.ContentLength < 0 {
		// net/http's own writer must be given: then the connection ends with the answer.
		x.body.ReadCloser = http.MaxBytesReader(x.w.to, r.Body, bound)
	}
	r.Body = &x.body
}

// leave gives back what x's body holds. A body that next has not read, or not to its end, does not keep the
// connection: net/http would wait for the rest for as long as the asker likes.
func (x *exchange) leave() {
	if x.held != nil {
		x.held.release(x.house)
	}
	if x.body.to == nil || x.body.ended.Load() || x.request.ProtoMajor != 1 || x.w.status == http.StatusSwitchingProtocols {
		return
	}
	_ = http.NewResponseController(x.w.to).SetReadDeadline(time.Now().Add(lateBody))
}
