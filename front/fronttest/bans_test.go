package fronttest

import (
	"context"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/ban"
)

// A ban answers alike at every door, exempt rules included, with the seconds until it ends; and nobody else.
func TestABanHoldsAtEveryDoor(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			h := alone(t, pictures["one proxy"]+"rules: [{name: free, path: /svc, exempt: true}]\n")
			bans := ban.New(ban.Options{Now: h.clock.now})
			s, err := ban.ParseSubject("203.0.113.0/29")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bans.Add(context.Background(), s, weir.Ban{Until: h.clock.now().Add(time.Minute), Reason: "secret"}); err != nil {
				t.Fatal(err)
			}
			next := *h.engine.Current()
			next.Bans = bans
			h.engine.Swap(&next)
			ask := d.open(t, h)
			send := func(src string) answer {
				return ask(&request{src: src, method: "POST", host: "api.example", path: "/svc/Method"})
			}
			if got := send("203.0.113.7"); got != (answer{Status: 403, RetryAfter: "60"}) {
				t.Errorf("the banned: %+v", got)
			}
			if e := h.newest(t); e.Reason != "banned client" || e.RetryAfter == nil || *e.RetryAfter != 60 {
				t.Errorf("recorded %+v", e)
			}
			if got := send("203.0.113.8"); got.Status != 200 {
				t.Errorf("the neighbour: %+v", got)
			}
			h.clock.at.Add(int64(time.Minute))
			if got := send("203.0.113.7"); got.Status != 200 {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}
