package replicas_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/tokentest"
)

// lateInTheDay reports whether midnight, in UTC, comes too soon for a test of what is used in a day.
func lateInTheDay() bool {
	now := time.Now().UTC()
	return now.Add(5*time.Minute).YearDay() != now.YearDay()
}

// zone is one whose midnight is not near.
func zone() string {
	if lateInTheDay() {
		return "Asia/Tokyo"
	}
	return "UTC"
}

// byPlan reads tokens from a file of keys, and grants a plan 1,000 requests a day.
func byPlan(t *testing.T, i *tokentest.Issuer) string {
	keys := filepath.Join(t.TempDir(), "keys.json")
	tokentest.Write(t, keys, i)
	return "jwt: {jwks_file: " + keys + ", issuer: id, audience: weir, plan_claim: plan}\n" +
		"plans: {free: {quota: [1000/day], timezone: " + zone() + "}}\ndefault: {limits: []}\n"
}

func claims(sub string) map[string]any {
	return map[string]any{"sub": sub, "iss": "id", "aud": "weir", "plan": "free", "exp": time.Now().Add(time.Hour).Unix()}
}

// Ten processes, one Redis: a daily quota of 1,000 admits exactly 1,000, wherever and from whichever address the
// key asks, and neither forged tokens nor another key's requests use any of it.
func TestTenProcessesOneQuota(t *testing.T) {
	const most = 1000
	i := tokentest.New(t, "k1")
	ann, bob, forged := i.Token(claims("ann")), i.Token(claims("bob")), tokentest.New(t, "k1").Token(claims("ann"))
	_, urls := startReplicas(t, 10, basics(startService(t))+patient(redistest.Start(t).URL())+byPlan(t, i))
	c := newCrowd(t)
	c.token.Store(&ann)
	for _, url := range urls {
		eventually(t, patience, "the keys are read", func() bool { return c.ask(url+"/", c.fresh()).status == http.StatusOK })
	}
	used := len(urls)
	c.token.Store(&forged)
	if diff := cmp.Diff(tally{http.StatusUnauthorized: 50}, c.hammer(urls, "/", c.fresh(), 50)); diff != "" {
		t.Errorf("forged (-want +got):\n%s", diff)
	}
	c.token.Store(&ann)
	clients := make([]string, 20)
	for n := range clients {
		clients[n] = c.fresh()
	}
	got := tally{}
	for _, one := range c.hammerAll(urls, "/", clients, 60) {
		for status, n := range one {
			got[status] += n
		}
	}
	if diff := cmp.Diff(tally{200: most - used, 429: 200 + used}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.token.Store(&bob)
	if got := c.ask(urls[3]+"/", c.fresh()).status; got != http.StatusOK {
		t.Errorf("another key: HTTP status %d", got)
	}
}

// Without Redis a quota is in the embedded database: a restart forgets nothing, and a process that is killed at most
// the last second's.
func TestQuotaOutlivesTheProcess(t *testing.T) {
	i := tokentest.New(t, "k1")
	ann := i.Token(claims("ann"))
	yaml := basics(startService(t)) + byPlan(t, i) + "data_dir: " + filepath.Join(t.TempDir(), "data") + "\n"
	c := newCrowd(t)
	c.token.Store(&ann)
	ask := func(r *replica, n int) tally {
		eventually(t, patience, "the keys are read", func() bool {
			return c.ask(r.url+"/.well-known/weir/none", "198.51.100.1").status != http.StatusServiceUnavailable
		})
		return c.hammer([]string{r.url}, "/", "198.51.100.1", n)
	}
	r := startReplica(t, yaml)
	if diff := cmp.Diff(tally{200: 600}, ask(r, 600)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	time.Sleep(written)
	r.kill()
	r = startReplica(t, yaml)
	got := ask(r, 500)
	if diff := cmp.Diff(tally{200: 398, 429: 102}, got); diff != "" { // two were the questions whether the keys are read
		t.Errorf("after a kill (-want +got):\n%s", diff)
	}
}
