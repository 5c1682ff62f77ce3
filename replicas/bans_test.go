package replicas_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// propagated is how long a ban may take to hold on all replicas.
const propagated = time.Second

// api sends a request to the admin API of r, and decodes its answer.
func (r *replica) api(method, path, body string, out any) int {
	r.t.Helper()
	req, err := http.NewRequest(method, r.admin+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		r.t.Errorf("%s %s: %d, %v", method, path, res.StatusCode, err)
	}
	return res.StatusCode
}

type bans struct {
	Total int
	Bans  []struct{ Subject, Author, Since, Until string }
}

func (r *replica) ban(body string) (status int) { return r.api("POST", "bans", body, new(struct{})) }

func (r *replica) unban(subject string) (status int) {
	return r.api("DELETE", "bans/"+url.PathEscape(subject), "", new(struct{}))
}

// everywhere reports whether every replica answers the client with that HTTP status.
func (c *crowd) everywhere(urls []string, client string, status int) func() bool {
	return func() bool {
		for _, u := range urls {
			if c.ask(u+"/", client).status != status {
				return false
			}
		}
		return true
	}
}

// A ban that one of ten processes makes holds on all within a second, and so does its end; one that starts later
// knows it; while Redis is away it goes on.
func TestABanHoldsOnAllReplicas(t *testing.T) {
	server, s, c := redistest.Start(t), startService(t), newCrowd(t)
	yaml := basics(s) + fmt.Sprintf("data_dir: %q\nstore: {redis: {url: %q}}\n", t.TempDir(), server.URL()) + "default: {limits: []}\n"
	all, urls := startReplicas(t, 10, yaml)
	client, other := c.fresh(), c.fresh()
	if status := all[3].ban(fmt.Sprintf(`{"subject": %q, "for": "1h", "reason": "flood"}`, client)); status != 201 {
		t.Fatalf("the ban was answered %d", status)
	}
	took := eventually(t, timed.Bound(propagated), "the ban on all", c.everywhere(urls, client, 403))
	if !c.everywhere(urls, other, 200)() {
		t.Error("another client is refused")
	}
	late := startReplica(t, yaml)
	if a := c.ask(late.url+"/", client); a.status != 403 || a.header.Get("Retry-After") == "" {
		t.Errorf("a replica that started later answers %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
	server.Freeze()
	if status := all[5].ban(fmt.Sprintf(`{"subject": %q}`, other)); status != 503 {
		t.Errorf("a ban without Redis was answered %d, want 503", status)
	}
	if !c.everywhere(urls, client, 403)() {
		t.Error("without Redis the ban is gone")
	}
	server.Thaw()
	eventually(t, patience, "a ban after the outage", func() bool { return all[5].ban(fmt.Sprintf(`{"subject": %q}`, other)) == 201 })
	eventually(t, timed.Bound(2*propagated), "that ban on all", c.everywhere(urls, other, 403))
	if status := all[7].unban(client); status != 200 {
		t.Errorf("lifting was answered %d", status)
	}
	lifted := eventually(t, timed.Bound(propagated), "the end of the ban on all", c.everywhere(urls, client, 200))
	t.Logf("the ban held on all after %v, and its end after %v", took, lifted)
}

// The offences of a client over all replicas ban it once, for the first term, and everywhere.
func TestAPenaltyHoldsOnAllReplicas(t *testing.T) {
	server, s, c := redistest.Start(t), startService(t), newCrowd(t)
	all, urls := startReplicas(t, 4, basics(s)+fmt.Sprintf("store: {redis: {url: %q, timeout: 5s}}\n", server.URL())+
		"default: {limits: [{rate: 10/1h}]}\npenalties: [{after: 20 denials in 1h, ban: \"1h, 24h\"}]\n")
	client := c.fresh()
	got := c.hammer(urls, "/", client, 29)
	if got[200] != 10 || got[403] > 0 {
		t.Errorf("with 19 denials %v", got)
	}
	c.hammer(urls, "/", client, 20)
	eventually(t, patience, "the ban on all", c.everywhere(urls, client, 403))
	var list bans
	all[0].api("GET", "bans", "", &list)
	if list.Total != 1 || list.Bans[0].Subject != client+"/32" || list.Bans[0].Author != "penalty" {
		t.Fatalf("%+v", list)
	}
	since, _ := time.Parse(time.RFC3339, list.Bans[0].Since)
	until, _ := time.Parse(time.RFC3339, list.Bans[0].Until)
	eventually(t, patience, "one ban counted", func() bool { return sum(all, "weir_penalties_total") == 1 })
	if until.Sub(since) != time.Hour {
		t.Errorf("a ban for %v, want 1h", until.Sub(since))
	}
}

// Without Redis a ban is in the embedded database before it is answered: kill -9 loses none.
func TestABanOutlivesKill(t *testing.T) {
	s, c := startService(t), newCrowd(t)
	yaml := basics(s) + fmt.Sprintf("data_dir: %q\ndefault: {limits: []}\n", filepath.Join(t.TempDir(), "data"))
	r := startReplica(t, yaml)
	var banned []string
	for range 20 {
		client := c.fresh()
		if status := r.ban(fmt.Sprintf(`{"subject": %q}`, client)); status != 201 {
			t.Fatalf("the ban was answered %d", status)
		}
		banned = append(banned, client)
	}
	r.kill()
	r = startReplica(t, yaml)
	for _, client := range banned {
		if a := c.ask(r.url+"/", client); a.status != 403 {
			t.Errorf("%s is answered %d after the kill", client, a.status)
		}
	}
	if n := r.metric("weir_bans"); n != 20 {
		t.Errorf("weir_bans is %v, want 20", n)
	}
}
