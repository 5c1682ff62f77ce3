package fronttest

import (
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/journal"
)

// An attack in the URL is blocked at every door that sees it, with the same verdict; what stands in a header is
// seen where headers are. What each has inspected it says. gRPC has no URL, and is not inspected.
func TestTheFirewallStandsAtEveryDoor(t *testing.T) {
	const attack = "id=1'+UNION+SELECT+password+FROM+users--+-"
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			h := alone(t, pictures["one proxy"]+"waf: {ruleset: fast}\ndefault: {limits: [{rate: 100/1m, per: client}]}\n")
			ask := d.open(t, h)
			status := func(query string) int {
				h.clock.at.Add(int64(time.Second))
				got := ask(&request{src: "203.0.113.7", method: "POST", host: "api.example", path: "/svc/Method", query: query})
				h.newest(t)
				return got.Status
			}
			if d.name == "grpc" {
				if got := status(""); got != 200 {
					t.Errorf("an ordinary call: %d", got)
				}
				return
			}
			if got := status("id=7"); got != 200 {
				t.Errorf("an ordinary request: %d", got)
			}
			if got := status(attack); got != 403 {
				t.Errorf("an attack: %d", got)
			}
			var blocked []journal.Blocked
			proctest.Eventually(t, "what was blocked", func() bool { // it is noted after the newest record
				blocked = h.journal.Blocked(2)
				return len(blocked) > 0
			})
			if len(blocked) != 1 || blocked[0].Status != 403 || blocked[0].Path != "/svc/Method" || len(blocked[0].Matches) == 0 {
				t.Errorf("blocked: %+v", blocked)
			}
		})
	}
}
