package demo

import (
	"fmt"
	"strings"
)

// What the file says of clients, as the tour goes on.
const (
	notSaid       = "client: {}\n"
	everyoneTrust = "client:\n  trusted_proxies: [0.0.0.0/0]\n  dangerously_trust_everyone: true\n"
)

// policy is the file of the stage's Weir, with a client section. Windows are hours, so that none turns
// while a count is shown.
func (s *stage) policy(client string) string {
	return fmt.Sprintf(`# Weir's demo. Edit and save this file while the demo runs: Weir follows.
listen: "127.0.0.1:0"                             # any port that is free
admin: "127.0.0.1:0"
upstream: "http://%s"
data_dir: %q

rules:
  - name: shop
    path: /shop
    limits: [{rate: 60/1h, per: client}]
  - name: search
    path: /search
    limits: [{rate: 20/1m, per: client}]
  - name: exact
    path: /exact
    limits: [{rate: 100/1h, per: client}]
  - name: burst
    path: /burst
    limits: [{rate: 2/2s, per: client}]
  - name: tarpit
    path: /tarpit
    action: tarpit                                # over the limit: answered late, a bounded number at once
    tarpit: {delay: %.0fs, max_held: %d, max_held_per_client: %d}
    limits: [{rate: 10/1h, per: client}]
  - name: plain
    path: /plain
    limits: [{rate: 10/1h, per: client}]
  - name: trial
    path: /trial
    mode: shadow                                  # counted and reported, refuses nothing
    limits: [{rate: 5/1h, per: client}]

default:
  limits: [{rate: 300/1m, per: client}]

# Who is asking: the demo plays the one proxy in front, which connects from 127.0.0.1.
%s`, s.service.addr, s.path("data"), held.Seconds(), pitSize, pitSize, client)
}

// strict is the stage's policy with the limits halved that are in force, and the one on trial in force: for a log,
// whose clients are those that it names.
func (s *stage) strict() string {
	return strings.NewReplacer("60/1h", "30/1h", "20/1m", "10/1m", "100/1h", "50/1h", "2/2s", "1/2s", "10/1h", "5/1h", "300/1m", "150/1m",
		"    mode: shadow                                  # counted and reported, refuses nothing\n", "").
		Replace(s.policy(notSaid))
}
