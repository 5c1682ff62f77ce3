package demo

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weirgate/weir/admin"
)

// exactCount shows that exactly as many pass as the limit says, and reach the service.
func exactCount(ctx context.Context, s *stage) error {
	before := s.service.called.Load()
	t, err := s.many(ctx, 1000, 64, func(int) visit { return visit{path: "/exact", from: "203.0.113.20"} })
	if err != nil {
		return err
	}
	seen := int(s.service.called.Load() - before)
	s.voice.say("1,000 requests of one client, 64 at a time, against 100 an hour:")
	s.voice.table(
		[]string{"passed", count(t.passed)},
		[]string{"refused", count(t.refused)},
		[]string{"reached the service", count(seen)},
	)
	s.want("requests that pass", t.passed, 100)
	s.want("requests that are refused", t.refused, 900)
	s.want("requests that reach the service", seen, 100)
	return nil
}

// trueWait hammers a limit, waits as told, and is let in.
func trueWait(ctx context.Context, s *stage) error {
	hammer := visit{path: "/burst", from: "203.0.113.30"}
	var refused answer
	for i := range 1000 {
		a, err := s.ask(ctx, hammer)
		if err != nil {
			return err
		}
		if refused = a; i >= 50-1 && a.status == http.StatusTooManyRequests {
			break // on a slow machine a few pass among them
		}
	}
	s.voice.say("50 requests against 2 in 2 seconds. What the refused client is told:")
	s.voice.quote(refused.line)
	for _, name := range []string{"Content-Type", "Retry-After", "RateLimit-Policy", "RateLimit"} {
		s.voice.quote(name + ": " + refused.header.Get(name))
	}
	wait, err := strconv.Atoi(refused.header.Get("Retry-After"))
	if err != nil {
		return fmt.Errorf("Retry-After of a refusal: %w", err)
	}
	done := s.voice.hint("waiting as told")
	err = pause(ctx, time.Duration(wait)*time.Second)
	done()
	if err != nil {
		return err
	}
	a, err := s.ask(ctx, hammer)
	s.voice.say("Waited %d s, as told, and asked once: %s. Hammering made it no longer.", wait, a.line)
	s.want("HTTP status after waiting as told", a.status, http.StatusOK)
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// onTrial shows that a shadow limit refuses nobody, and what it reports.
func onTrial(ctx context.Context, s *stage) error {
	t, err := s.many(ctx, 8, 1, func(int) visit { return visit{path: "/trial", from: "203.0.113.40"} })
	if err != nil {
		return err
	}
	var view admin.Shadow
	if err := s.weir.question(ctx, http.MethodGet, "/api/v1/shadow", &view); err != nil {
		return err
	}
	over, whom := 0, []string{}
	for _, l := range view.Limits {
		over, whom = over+l.Recent, append(whom, l.Clients...)
	}
	s.voice.say("8 requests against 5 an hour in shadow mode: %d passed. Weir reports that %d would have been refused, of %v; the dashboard has it, too.", t.passed, over, whom)
	s.want("requests that pass a shadow limit", t.passed, 8)
	s.want("requests that it reports", over, 3)
	return nil
}

// firewall asks with an injection, and with a sentence of the same words.
func firewall(ctx context.Context, s *stage) error {
	attack, err := s.ask(ctx, visit{path: "/find?q=1%27%20UNION%20SELECT%20password%20FROM%20users--", from: "203.0.113.50"})
	if err != nil {
		return err
	}
	prose, err := s.ask(ctx, visit{path: "/find?q=O%27Reilly%27s%20guide%3A%20how%20to%20select%20a%20union%20and%20drop%20it", from: "203.0.113.51"})
	if err != nil {
		return err
	}
	s.voice.table(
		[]string{"?q=1' UNION SELECT password FROM users--", attack.line},
		[]string{"?q=O'Reilly's guide: how to select a union and drop it", prose.line},
	)
	s.want("HTTP status of an injection", attack.status, http.StatusForbidden)
	s.want("HTTP status of prose", prose.status, http.StatusOK)
	var b admin.Blocked
	if err := s.weir.question(ctx, http.MethodGet, "/api/v1/blocked", &b); err != nil {
		return err
	}
	if len(b.Blocked) == 0 {
		return fmt.Errorf("no blocked request is listed, expected one")
	}
	s.voice.say("What matched, as the dashboard has it: %s (%s) in %s: %q", b.Blocked[0].Rule, b.Blocked[0].Class, b.Blocked[0].Location, b.Blocked[0].Fragment)
	return nil
}
