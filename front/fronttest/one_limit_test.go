package fronttest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

const fiveHundred = `
client: {from_right: 1, peers: [loopback]}
default: {limits: [{rate: 500/1h, per: client, algorithm: sliding_log}]}
`

// replica returns a house whose counts are in the Redis at url, as another process has one.
func replica(t *testing.T, url string) *house {
	t.Helper()
	const patience = 10 * time.Second // a busy machine is not what is tested
	shared, err := redis.New(redis.Options{URL: url, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxKeys: 1000})
	store := failover.New(shared, local, failover.Options{Timeout: patience, Replicas: 2})
	t.Cleanup(func() {
		store.Close()
		_ = shared.Close()
		local.Close()
		if n := store.Fallbacks(); n > 0 {
			t.Errorf("%d hits were counted elsewhere", n)
		}
	})
	return build(t, fiveHundred, store)
}

// hypothesis: a client that alternates between fronts, or replicas, has as many limits as there are. It has one:
// of 500, exactly 500 pass, one after the other as well as all at once; and every request is recorded once.
func TestOneLimit(t *testing.T) {
	const perDoor = 100
	server := redistest.Start(t)
	for name, together := range map[string]func([]func(*request) answer, []request) map[int]int{"in turn": inTurn, "at once": atOnce} {
		t.Run(name, func(t *testing.T) {
			server.Do("FLUSHALL")
			replicas := []*house{replica(t, server.URL()), replica(t, server.URL())}
			var sends []func(*request) answer
			for _, h := range replicas {
				for i := range doors {
					sends = append(sends, doors[i].open(t, h))
				}
			}
			got := together(sends, spread(perDoor))
			all := len(sends) * perDoor
			if diff := cmp.Diff(map[int]int{200: 500, 429: all - 500}, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			for _, h := range replicas {
				h.recorded(t, all/2)
			}
		})
	}
}

// spread returns n requests of one client, who writes other names for himself.
func spread(n int) []request {
	list := make([]request, n)
	for i := range list {
		list[i] = request{src: "203.0.113.7", chain: fmt.Sprintf("6.6.6.%d", i%200), method: "POST", host: "api.example", path: "/svc/Method"}
	}
	return list
}

// inTurn sends each request through each door before the next, and counts the statuses.
func inTurn(sends []func(*request) answer, list []request) map[int]int {
	got := map[int]int{}
	for i := range list {
		for _, send := range sends {
			got[send(&list[i]).Status]++
		}
	}
	return got
}

// atOnce sends all requests through each door, all doors at once, and counts the statuses.
func atOnce(sends []func(*request) answer, list []request) map[int]int {
	var mu sync.Mutex
	var sending sync.WaitGroup
	got := map[int]int{}
	for _, send := range sends {
		sending.Go(func() {
			for i := range list {
				status := send(&list[i]).Status
				mu.Lock()
				got[status]++
				mu.Unlock()
			}
		})
	}
	sending.Wait()
	return got
}
