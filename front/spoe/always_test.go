package spoe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/spoe/spop"
	"github.com/weirgate/weir/internal/timed"
)

// soon is how late an acknowledgement may be that waits for nobody (FAL-22). The median of some tries is held
// to it, since the machine may test other things at the same time.
const (
	soon  = 5 * time.Millisecond
	tries = 9
)

var undecidedVariables = map[string]any{"degraded": true}

// FAL-22, criteo/haproxy-spoe-go#38: an agent sent nothing where its handler failed, and HAProxy waited for
// its whole time-out. Whatever is wrong with a message, the frame is acknowledged at once, and the
// connection goes on.
func TestBadMessagesAreAcknowledged(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
		want  map[string]any
	}{
		{"unknown name", message(1, "other", arguments()), undecidedVariables},
		{"no message", spop.EndFrame(spop.BeginFrame(nil, spop.Notify, 7, 1), 0), undecidedVariables},
		{"fewer arguments than told", with(t, arguments(), func(b []byte) []byte { b[messageCount] += 5; return b }), undecidedVariables},
		{"a number that does not end", raw("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), undecidedVariables},
		{"a value longer than the frame", with(t, arguments(), func(b []byte) []byte { return b[:len(b)-3] }), undecidedVariables},
		{"a type that there is not", raw("\x0aweir-check\x01\x03src\x0f"), undecidedVariables},
		{"no arguments", message(1, messageName, nil), map[string]any{"action": "deny", "status": 400, "degraded": false, "body": badRequest}},
		{"beside another message", spop.EndFrame(append(message(1, "other", arguments()), message(1, messageName, nil)[messageStart:]...), 0),
			map[string]any{"action": "deny", "status": 400, "degraded": false, "body": badRequest}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, twoPerMinute, Options{})
			a := h.dial(t)
			var waits []time.Duration
			for range tries {
				began := time.Now()
				a.send(slices.Clone(tt.frame))
				got := a.acknowledged(1)
				waits = append(waits, time.Since(began))
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
			inTime(t, waits)
			if got := a.check(arguments()); got["action"] != "allow" {
				t.Errorf("afterwards: %v, want a decision", got)
			}
			lines := 0
			if tt.want["action"] == nil {
				lines = 1 // for all of them
			}
			if log, faults := h.logged(); len(faults) > 0 || strings.Count(log, "not understood") != lines {
				t.Errorf("faults %v, log %s: want %d lines", faults, log, lines)
			}
		})
	}
}

const badRequest = `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request target is not valid."}`

// inTime holds the median to soon.
func inTime(t *testing.T, waits []time.Duration) {
	t.Helper()
	slices.Sort(waits)
	if median := waits[len(waits)/2]; median > timed.Bound(soon) {
		t.Errorf("acknowledged after %s (median), want at most %s", median, soon)
	}
}

const (
	messageStart = 4 + 1 + 4 + 2 // of the payload, where stream and frame are below 240
	messageCount = messageStart + 1 + len(messageName)
)

// raw is a NOTIFY frame with that payload.
func raw(payload string) []byte {
	return spop.EndFrame(append(spop.BeginFrame(nil, spop.Notify, 7, 1), payload...), 0)
}

// with is a NOTIFY frame that was edited, and whose length is right.
func with(t *testing.T, list []argument, edit func([]byte) []byte) []byte {
	t.Helper()
	return spop.EndFrame(edit(message(1, messageName, list)), 0)
}

func TestPanicIsAcknowledged(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	a := h.dial(t)
	h.store.does(func() error { panic("boom") })
	var waits []time.Duration
	for range tries {
		began := time.Now()
		if diff := cmp.Diff(undecidedVariables, a.check(arguments())); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		waits = append(waits, time.Since(began))
	}
	inTime(t, waits)
	h.store.take.Store(nil)
	if got := a.check(arguments())["action"]; got != "allow" {
		t.Errorf("afterwards: %v, want allow", got)
	}
	eventually(t, "one record for each", func() bool { return len(h.journal.Recent(tries+2)) == tries+1 })
	faults := 0
	for _, e := range h.journal.Recent(tries + 1) {
		if e.Degraded && e.Reason == string(weir.FaultOfOurs) {
			faults++
		}
	}
	if faults != tries {
		t.Errorf("%d are recorded as degraded, with the reason, want %d", faults, tries)
	}
	if log, _ := h.logged(); !strings.Contains(log, "panic=boom") {
		t.Errorf("log: %s", log)
	}
}

// Past the bound the store is not asked, and each rule says what follows where it does not answer.
func TestOverload(t *testing.T) {
	h := open(t, `
client: {path: [haproxy]}
rules: [{name: strict, path: /strict, on_failure: deny, limits: [{rate: 9/1m}]}]
default: {limits: [{rate: 2/1m}, {in_flight: 3}]}
`, Options{MaxPending: 1})
	a, held := h.dial(t), make(chan struct{})
	h.store.does(func() error { <-held; return nil })
	a.send(message(1, messageName, arguments()))
	eventually(t, "the place is taken", func() bool { return len(h.pending) == 1 })
	var waits []time.Duration
	for range tries {
		began := time.Now()
		a.send(message(2, messageName, arguments()))
		want := map[string]any{"action": "allow", "status": 200, "degraded": true, "rule": "default"}
		if diff := cmp.Diff(want, a.acknowledged(2)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		waits = append(waits, time.Since(began))
	}
	inTime(t, waits)
	a.send(message(3, messageName, arguments(argument{"path", spop.Text("/strict")})))
	if got := a.acknowledged(3); got["action"] != "deny" || got["status"] != 503 || got["degraded"] != true {
		t.Errorf("on_failure: deny: %v, want deny 503", got)
	}
	if n := h.store.releases.Load(); n != 0 {
		t.Errorf("%d releases of what was not granted", n)
	}
	close(held)
	a.acknowledged(1)
	eventually(t, "all recorded", func() bool { return h.requests() == tries+2 })
}

// HAProxy asks again before it was answered; a question that waits for the store holds up no other.
func TestPipelining(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 100/1m}]}", Options{})
	a, held := h.dial(t), make(chan struct{})
	h.store.does(func() error { <-held; return errors.New("late") })
	a.send(message(1, messageName, arguments()))
	eventually(t, "the first waits", func() bool { return len(h.pending) == 1 })
	h.store.take.Store(nil)
	var frames []byte
	for id := range uint64(20) {
		frames = append(frames, message(id+2, messageName, arguments())...)
	}
	a.send(frames)
	got := map[uint64]bool{}
	for range 20 {
		f := a.receive()
		got[f.ID] = f.Type == spop.Ack
	}
	for id := range uint64(20) {
		if !got[id+2] {
			t.Errorf("frame %d was not acknowledged", id+2)
		}
	}
	close(held)
	if got := a.acknowledged(1); got["degraded"] != true {
		t.Errorf("%v, want it degraded", got)
	}
}

// What was asked before the drain is answered, and then HAProxy is told that we leave.
func TestDrain(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	idle, busy, held := h.dial(t), h.dial(t), make(chan struct{})
	h.store.does(func() error { <-held; return errors.New("late") })
	busy.send(message(1, messageName, arguments()))
	eventually(t, "the question waits", func() bool { return len(h.pending) == 1 })
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(context.Background()) }()
	if got := idle.left(); got != spop.Normal {
		t.Errorf("idle connection: %v, want normal", got)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with a question on its way: %v", err)
	default:
	}
	close(held)
	busy.acknowledged(1)
	if got := busy.left(); got != spop.Normal {
		t.Errorf("busy connection: %v, want normal", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, faults := h.logged(); len(faults) > 0 {
		t.Errorf("faults %v, want none", faults)
	}
}

// A question that never rests keeps its connection until there is no more time; then it ends between two
// questions.
func TestDrainOfABusyConnection(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 1000000/1m}]}", Options{})
	a := h.dial(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(ctx) }()
	var last spop.Frame
	for asked := 0; last.Type != spop.AgentDisconnect; asked++ {
		if _, err := a.conn.Write(message(1, messageName, arguments())); err != nil {
			break
		}
		f, err := a.next()
		if err != nil {
			break
		}
		last = f
	}
	if last.Type != spop.AgentDisconnect {
		t.Errorf("the last frame is of type %d, want a disconnect", last.Type)
	}
	if err := <-drained; err != nil && !strings.Contains(err.Error(), "1 connections cut off") {
		t.Error(err)
	}
}

// A frozen store holds an acknowledgement up for no longer than its own time-out.
func TestLateStore(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 100/1m}]}", Options{})
	const timeout = 15 * time.Millisecond
	h.store.does(func() error { time.Sleep(timeout); return context.DeadlineExceeded })
	a := h.dial(t)
	var waits []time.Duration
	for range tries {
		var frames []byte
		for id := range uint64(20) {
			frames = append(frames, message(id, messageName, arguments())...)
		}
		began := time.Now()
		a.send(frames)
		for range 20 {
			a.receive()
		}
		waits = append(waits, time.Since(began)-timeout)
	}
	inTime(t, waits)
}

func TestAnswersAfterTheAskerHasGone(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	a, held := h.dial(t), make(chan struct{})
	h.store.does(func() error { <-held; return errors.New("late") })
	a.send(message(1, messageName, arguments()))
	eventually(t, "the question waits", func() bool { return len(h.pending) == 1 })
	a.conn.Close()
	close(held)
	eventually(t, "record", func() bool { return h.requests() == 1 })
	eventually(t, "place", func() bool { return len(h.pending) == 0 })
}
