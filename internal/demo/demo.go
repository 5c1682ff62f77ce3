// Package demo shows what Weir promises, by real traffic on loopback: each promise with the figures that
// were measured as it was shown, and judged by them.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Options say how the demo is shown.
type Options struct {
	Out      io.Writer
	Terminal bool   // Out is one: hints come and go in place
	Plain    bool   // nothing is emphasized (NO_COLOR)
	Program  string // how the reader calls weir
	Once     bool   // end after the tour
}

// A promise is one thing that Weir promises, and how it is shown. What show finds not kept it says by
// stage.want and the like; an error is what kept it from being shown.
type promise struct {
	title string
	show  func(context.Context, *stage) error
}

func promises() []promise {
	return []promise{
		{"The wrong bucket, shown and mended", wrongBucket},
		{"The right count, however many ask at once", exactCount},
		{"Ten replicas, one count", tenReplicas},
		{"The store killed, and brought back", lostStore},
		{"The right answer: a Retry-After that is true", trueWait},
		{"A tarpit that holds everyone, a bounded one, and 429", floods},
		{"An attack stopped, and prose let through", firewall},
		{"A limit on trial: counted, and nobody refused", onTrial},
		{"Tomorrow's policy on today's traffic: a replay", replayed},
	}
}

// Run opens a sample service with Weir before it and shows the promises, then goes on until ctx is done.
// It leaves nothing behind. A promise that was not kept is an error that says what was expected; the end
// of ctx is none.
func Run(ctx context.Context, o Options) error {
	s, err := openStage(ctx, o)
	if err != nil {
		return quiet(ctx, err)
	}
	s.greet()
	err = s.tour(ctx, promises())
	if ctx.Err() == nil && !o.Once {
		s.invite()
		<-ctx.Done()
	}
	return errors.Join(quiet(ctx, err), s.close())
}

// quiet returns err, unless a promise was interrupted: a stop that was asked for is no failure.
func quiet(ctx context.Context, err error) error {
	var b *broken
	if ctx.Err() != nil && !errors.As(err, &b) {
		return nil
	}
	return err
}

// A broken is a promise that was not kept.
type broken struct{ list []string }

func (b *broken) Error() string {
	text := "not kept:"
	for _, what := range b.list {
		text += "\n  " + what
	}
	return text
}

// tour shows promises one after the other, all of them, and returns those that were not kept.
func (s *stage) tour(ctx context.Context, promises []promise) error {
	var all broken
	began := time.Now()
	kept, inPart := 0, 0
	for i, p := range promises {
		s.voice.title(i+1, p.title)
		s.unkept, s.inPart = nil, false
		err := p.show(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.fail(err.Error())
		}
		for _, what := range s.unkept {
			all.list = append(all.list, fmt.Sprintf("%d. %s: %s", i+1, p.title, what))
		}
		switch {
		case s.unkept != nil:
		case s.inPart:
			inPart++
		default:
			kept++
		}
	}
	s.voice.total(kept, len(promises), time.Since(began))
	if inPart > 0 {
		s.voice.missing(inPart)
	}
	if all.list == nil {
		return nil
	}
	return &all
}

// fail notes that the promise that is being shown is not kept.
func (s *stage) fail(what string) {
	s.unkept = append(s.unkept, what)
	s.voice.say("NOT KEPT: %s", what)
}

// want notes a figure that is not what was promised.
func (s *stage) want(what string, got, promised int) {
	if got != promised {
		s.fail(fmt.Sprintf("%s: %d, expected %d", what, got, promised))
	}
}

// wantAtMost notes a figure that is above what was promised.
func (s *stage) wantAtMost(what string, got, most int) {
	if got > most {
		s.fail(fmt.Sprintf("%s: %d, expected at most %d", what, got, most))
	}
}

// wantText notes a word that is not what was promised.
func (s *stage) wantText(what, got, promised string) {
	if got != promised {
		s.fail(fmt.Sprintf("%s: %q, expected %q", what, got, promised))
	}
}
