package replicas_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// reserve returns a server that has never been there, and may come.
func reserve(t *testing.T) *redistest.Server {
	s := redistest.Start(t)
	s.Kill()
	return s
}

// FAL-01, FAL-04: without a Redis, or with a wrong one, a replica starts, counts by itself and says so
// in one line; when Redis comes it is told nothing of what was, and counts from then on.
func TestAbsentAtStart(t *testing.T) {
	redis, s, c := reserve(t), startService(t), newCrowd(t)
	all, urls := startReplicas(t, 1, basics(s)+patient(redis.URL())+rules(5)) // to nobody a connection fails at once
	if diff := cmp.Diff(tally{200: 5, 429: 15}, c.hammer(urls, "/fixed_window", c.fresh(), 20)); diff != "" {
		t.Errorf("without Redis (-want +got):\n%s", diff)
	}
	for range 50 {
		c.hammer(urls, "/token_bucket", c.fresh(), 1)
	}
	redis.Run()
	took := eventually(t, timed.Bound(recovered), "a closed breaker", func() bool { return all[0].metric("weir_store_breaker_open") == 0 })
	t.Logf("it was noticed %v after it came", took.Round(time.Millisecond))
	keys, _ := redis.Do("KEYS", "*").([]any)
	if keys = slices.DeleteFunc(keys, isOurs); len(keys) > 0 {
		t.Errorf("Redis was told of the past: %v", keys)
	}
	before := redis.Calls("evalsha")
	if diff := cmp.Diff(tally{200: 5, 429: 1}, c.hammer(urls, "/fixed_window", c.fresh(), 6)); diff != "" {
		t.Errorf("with Redis (-want +got):\n%s", diff)
	}
	if n := redis.Calls("evalsha") - before; n < 1 || n > 6 {
		t.Errorf("6 requests were %d scripts", n)
	}
	for _, what := range []string{"left alone", "answers again"} {
		if n := strings.Count(all[0].log(), what); n != 1 {
			t.Errorf("%d lines say %q, want 1:\n%s", n, what, all[0].log())
		}
	}
}

// isOurs reports whether a key is no client's: the probe's, and what replicas tell each other.
func isOurs(key any) bool { return strings.HasPrefix(key.(string), "weir:{weir}:") }

// FAL-01: whatever is at the other end, a replica starts and answers by its share.
func TestNotRedis(t *testing.T) {
	secret := redistest.Start(t, "--requirepass", "right")
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	s, crowd := startService(t), newCrowd(t)
	for _, c := range []struct{ name, url, told string }{
		{"no password", "redis://" + secret.Addr, "NOAUTH"},
		{"wrong password", "redis://:wrong@" + secret.Addr, "WRONGPASS"},
		{"no TLS there", "rediss://" + secret.Addr, "does the server speak TLS"},
		{"a web server", "redis://" + s.Listener.Addr().String(), "not a Redis server"},
		{"mute", "redis://" + mute.Addr().String(), mute.Addr().String()},
		{"no such name", "redis://redis.invalid:6379", "redis.invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startReplica(t, basics(s)+fmt.Sprintf("store: {redis: {url: %q}}\n", c.url)+rules(5))
			if diff := cmp.Diff(tally{200: 5, 429: 15}, crowd.hammer([]string{r.url}, "/fixed_window", crowd.fresh(), 20)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			eventually(t, patience, "a line that says "+c.told, func() bool {
				crowd.ask(r.url+"/fixed_window", crowd.fresh()) // three that this machine has no time for say nothing
				return len(r.warnings(c.told)) > 0
			})
			if all := r.warnings(""); len(all) > 2 || strings.Contains(r.log(), "wrong@") {
				t.Errorf("want at most two warnings, without the password:\n%s", r.log())
			}
			t.Log(r.warnings(""))
		})
	}
}

// warnings are the lines of that level about the store that say what.
func (r *replica) warnings(what string) (found []string) {
	for line := range strings.Lines(r.log()) {
		if strings.Contains(line, `"WARN"`) && strings.Contains(line, "shared store") && strings.Contains(line, what) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// CNT-42: a share is never less than one, however many replicas there are.
func TestLeastShare(t *testing.T) {
	const n = 5
	yaml := basics(startService(t)) + fmt.Sprintf("store: {redis: {url: %q}, replicas: %d}\n", reserve(t).URL(), n) + rules(3)
	_, urls := startReplicas(t, n, yaml)
	c := newCrowd(t)
	client := c.fresh()
	for _, want := range []int{200, 429} {
		for _, url := range urls {
			if a := c.ask(url+"/fixed_window", client); a.status != want {
				t.Errorf("%s: %d, want %d", url, a.status, want)
			}
		}
	}
}

// FAL-07: a server that has forgotten the script is given it again, and no count is lost by that.
func TestScriptForgotten(t *testing.T) {
	redis := redistest.Start(t)
	all, urls := startReplicas(t, 2, basics(startService(t))+patient(redis.URL())+rules(5))
	c := newCrowd(t)
	client := c.fresh()
	for _, want := range []tally{{200: 3}, {200: 2, 429: 198}} {
		n := want[200] + want[429]
		redis.Do("SCRIPT", "FLUSH")
		if diff := cmp.Diff(want, c.hammer(urls, "/fixed_window", client, n)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if n, open := sum(all, "weir_store_fallback_total"), sum(all, "weir_store_breaker_open"); n != 0 || open != 0 {
		t.Errorf("%v hits counted elsewhere, %v breakers open", n, open)
	}
}

// FAL-07: a server that was restarted empty begins anew. The burst that finds it so has no failed request,
// and what passes from then on is one limit, and of what was counted elsewhere in that moment a share each.
func TestBurstAfterRestart(t *testing.T) {
	redis := redistest.Start(t)
	yaml := basics(startService(t)) + fmt.Sprintf("store: {redis: {url: %q, timeout: 5s}, replicas: 2}\n", redis.URL()) + rules(5) // a dead one fails at once
	all, urls := startReplicas(t, 2, yaml)
	c := newCrowd(t)
	client := c.fresh()
	eventually(t, patience, "a limit that is used up", func() bool { // two connect at first
		return cmp.Equal(tally{429: 20}, c.hammer(urls, "/fixed_window", client, 20))
	})
	before, total := sum(all, "weir_store_fallback_total"), tally{}
	redis.Kill()
	redis.Run()
	eventually(t, timed.Bound(recovered), "five that pass", func() bool {
		for status, n := range c.hammer(urls, "/fixed_window", client, 200) {
			total[status] += n
		}
		return total[200] >= 5
	})
	for status, n := range c.hammer(urls, "/fixed_window", client, 200) {
		total[status] += n
	}
	if most := 5 + int(sum(all, "weir_store_fallback_total")-before); len(total) != 2 || total[200] > min(most, 5+2*3) {
		t.Errorf("%v, want none but 200 and 429, and of 5/1h with shares of 3 at most %d passed", total, most)
	}
}

// FAL-10: a process has a few connections, whatever the load. TestOutages counts those after an outage.
func TestConnections(t *testing.T) {
	redis := redistest.Start(t)
	const processes, pool = 2, 4
	_, urls := startReplicas(t, processes, basics(startService(t))+patient(redis.URL())+rules(1000))
	c := newCrowd(t)
	clients := make([]string, 20)
	for i := range clients {
		clients[i] = c.fresh()
	}
	c.hammerAll(urls, "/fixed_window", clients, 150)
	var open, ever int
	fmt.Sscan(redis.Info("clients", "connected_clients"), &open)
	fmt.Sscan(redis.Info("stats", "total_connections_received"), &ever)
	const own = 15 // this test's: of its start, and of these questions
	if open > processes*pool+1 || ever > processes*pool+own {
		t.Errorf("%d connections, %d ever", open, ever)
	}
	t.Logf("%d connections of %d processes after 3000 requests", open-1, processes)
}
