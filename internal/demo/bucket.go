package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirgate/weir/admin"
)

// The crowd of the first promise: enough requests that the chain diagnosis says something (200), by people
// with as many user agents.
const (
	pushy     = 200 // requests of one visitor
	crowd     = 20  // others, who ask once
	shopLimit = 60
)

// wrongBucket makes both mistakes, has Weir find each, and pastes what it proposes.
func wrongBucket(ctx context.Context, s *stage) error {
	s.voice.say("Behind a proxy, every connection comes from the proxy. A limiter that counts by that address has one bucket for everybody. Weir, told nothing of a proxy, against 60 an hour:")
	one, others, err := s.shop(ctx, "203.0.113.7", honest)
	if err != nil {
		return err
	}
	s.want("requests of the first that pass", one.passed, shopLimit)
	s.want("others that pass, in one bucket with him", others.passed, 0)
	s.voice.say("He locked all others out. Weir says so itself, with the lines to paste:")
	if err := s.mend(ctx, "header.unexpected"); err != nil {
		return err
	}
	if one, others, err = s.shop(ctx, "203.0.113.8", honest); err != nil {
		return err
	}
	s.want("requests of the first that pass, once mended", one.passed, shopLimit)
	s.want("others that pass, once mended", others.passed, crowd)
	return s.forgery(ctx)
}

// forgery makes the other mistake.
func (s *stage) forgery(ctx context.Context) error {
	s.voice.say("The other mistake is to believe the leftmost X-Forwarded-For, which the client writes himself (Weir does only under dangerously_trust_everyone):")
	if err := s.weir.reload(ctx, s.policy(everyoneTrust)); err != nil {
		return err
	}
	one, _, err := s.shop(ctx, "203.0.113.9", forged)
	if err != nil {
		return err
	}
	s.want("requests of a forger that pass", one.passed, pushy)
	s.voice.say("A new name for each request: the forger is never limited. Weir says:")
	if err := s.mend(ctx, "config.trusts_everyone"); err != nil {
		return err
	}
	if one, _, err = s.shop(ctx, "203.0.113.10", forged); err != nil {
		return err
	}
	s.want("requests of a forger that pass, once mended", one.passed, shopLimit)
	return nil
}

// shop has one visitor ask often, with what he forges, and then a crowd ask once each.
func (s *stage) shop(ctx context.Context, from string, forge func(int) string) (one, others tally, err error) {
	one, err = s.many(ctx, pushy, 1, func(i int) visit {
		return visit{path: "/shop", from: from, forged: forge(i), agent: agent(i)}
	})
	if err != nil {
		return one, others, err
	}
	others, err = s.many(ctx, crowd, 1, func(i int) visit {
		return visit{path: "/shop", from: fmt.Sprintf("198.51.100.%d", i+1), agent: agent(i)}
	})
	s.voice.table(
		[]string{fmt.Sprintf("%s asks %d times%s", from, pushy, map[bool]string{true: ", forging"}[forge(1) != ""]), fmt.Sprintf("%d pass", one.passed)},
		[]string{fmt.Sprintf("%d others ask once each", crowd), fmt.Sprintf("%d pass", others.passed)},
	)
	return one, others, err
}

// mend shows a finding of the running Weir's diagnosis, and puts its lines in force.
func (s *stage) mend(ctx context.Context, code string) error {
	var d admin.Diagnosis
	if err := s.weir.question(ctx, http.MethodGet, "/api/v1/diagnosis", &d); err != nil {
		return err
	}
	for _, f := range d.Findings {
		if f.Code != code {
			continue
		}
		s.voice.say("%s: %s", f.Code, f.Text)
		s.voice.quote(f.Edit)
		s.voice.say("Pasted into weir.yaml, and reloaded while Weir serves:")
		return s.weir.reload(ctx, s.policy(strings.TrimRight(f.Edit, "\n")+"\n"))
	}
	return fmt.Errorf("the diagnosis has %v, expected %s", d.Findings, code)
}

func honest(int) string { return "" }

func forged(i int) string { return fmt.Sprintf("198.18.%d.%d", i/250, i%250+1) }

func agent(i int) string { return fmt.Sprintf("browser/%d", i%8) }
