package ban

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/store/memory"
)

// A court is a box with all that it needs, whose offences are judged when the test says so.
type court struct {
	*Box
	*Penalties
	*clock
	t    testing.TB
	told []Sentence
}

// sit returns a court for a configuration, over a memory of its own.
func sit(t testing.TB, yaml string) *court {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 1000})
	t.Cleanup(store.Close)
	return sitOver(t, yaml, store, nil)
}

func sitOver(t testing.TB, yaml string, store weir.Store, r Register) *court {
	t.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	p, more := policy.Compile(cfg)
	if p == nil || config.HasErrors(problems) {
		t.Fatal(problems, more)
	}
	c := &court{t: t, clock: newClock()}
	c.Box = NewBox(New(Options{Now: c.now, Register: r}), func(s Sentence) { c.told = append(c.told, s) }, slog.New(slog.DiscardHandler))
	c.Penalties = c.Box.Penalties(cfg.Penalties, store, p.Spares)
	return c
}

// note notes n decisions like d, and has them judged.
func (c *court) note(n int, d weir.Decision, status int) {
	c.t.Helper()
	for range n {
		again := d
		c.Note(c.at, &again, weir.Outcome{HTTP: status})
		for len(c.queue) > 0 {
			o := <-c.queue
			if err := o.judge(context.Background()); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// denied is a refusal of a client by a limit.
func denied(c *weir.Client) weir.Decision {
	d := weir.Decision{Client: *c}
	d.Refuse(weir.OverLimit, 429)
	return d
}

// sentenced is who was banned and for how long.
func (c *court) sentenced() (list []string) {
	for _, s := range c.told {
		list = append(list, s.Ban.Subject+" "+s.Ban.Until.Sub(s.Ban.Since).String())
	}
	c.told = nil
	return list
}

func (c *court) want(what string, want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.sentenced()); diff != "" {
		c.t.Errorf("%s: banned (-want +got):\n%s", what, diff)
	}
}

// The twentieth offence bans, the nineteenth does not, and those that lie too far apart never do.
func TestOffencesBan(t *testing.T) {
	c := sit(t, "penalties: [{after: 20 denials in 1m, ban: 10m}]")
	d := denied(from("203.0.113.7"))
	c.note(19, d, 429)
	c.want("19 denials")
	c.note(1, d, 429)
	c.want("20 denials", "203.0.113.7/32 10m0s")
	ban := c.bans.Find(c.at, from("203.0.113.7"))
	if diff := cmp.Diff(&weir.Ban{Subject: "203.0.113.7/32", Since: c.at, Until: c.at.Add(10 * time.Minute), Reason: "20 denials in 1m per ip", Author: "penalty"}, ban); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for range 100 {
		c.at = c.at.Add(4 * time.Second) // 15 in a minute
		c.note(1, denied(from("203.0.113.8")), 429)
	}
	c.want("15 denials in each minute")
	if diff := cmp.Diff(map[string]uint64{"20 denials in 1m per ip": 1}, c.Counts()); diff != "" {
		t.Errorf("counts, -want +got:\n%s", diff)
	}
}

// WAF-14: what a ban refuses is no offence, so that no ban feeds itself.
func TestRefusalsByABanAreNoOffences(t *testing.T) {
	c := sit(t, "penalties: [{after: 2 denials in 1h, ban: 1m}, {after: 2 statuses in 1h, ban: 1m, statuses: [403]}]")
	d := denied(from("203.0.113.7"))
	c.note(2, d, 429)
	c.want("two denials", "203.0.113.7/32 1m0s")
	banned := weir.Decision{Client: d.Client, Ban: c.bans.Find(c.at, &d.Client)}
	banned.Refuse(weir.BannedClient, 403)
	for range 50 {
		c.at = c.at.Add(10 * time.Second)
		c.note(1, banned, 403)
	}
	c.want("refusals by the ban")
	if c.bans.Find(c.at, &d.Client) != nil {
		t.Error("the ban does not end")
	}
	c.note(1, d, 429)
	c.want("one denial afterwards")
}

// Each ban is longer than the one before; each longest span without an offence forgives one.
func TestBansEscalateAndDecay(t *testing.T) {
	c := sit(t, "penalties: [{after: 1 denial in 1s, ban: \"10m, 1h, 24h\"}]")
	d := denied(from("203.0.113.7"))
	for _, step := range []struct {
		wait time.Duration
		term string
	}{
		{0, "10m0s"}, {10 * time.Minute, "1h0m0s"}, {time.Hour, "24h0m0s"}, {24 * time.Hour, "24h0m0s"}, // the end of a ban forgives as much as the ban adds
		{48 * time.Hour, "1h0m0s"}, {72 * time.Hour, "10m0s"}, {24*time.Hour - time.Second, "1h0m0s"},
	} {
		c.at = c.at.Add(step.wait)
		c.note(1, d, 429)
		c.want(step.wait.String()+" later", "203.0.113.7/32 "+step.term)
	}
}

// Whom a penalty bans: the address, the key, or nobody; of IPv6 the whole client.
func TestWhoIsBanned(t *testing.T) {
	keyed := from("203.0.113.7")
	keyed.APIKey = "k1"
	for _, test := range []struct {
		per    string
		client *weir.Client
		want   []string
	}{
		{"ip", keyed, []string{"203.0.113.7/32 10m0s"}},
		{"client", keyed, []string{"key:k1 10m0s"}},
		{"key", keyed, []string{"key:k1 10m0s"}},
		{"client", from("203.0.113.7"), []string{"203.0.113.7/32 10m0s"}},
		{"key", from("203.0.113.7"), nil},
		{"ip", from("2001:db8:1:2:3::4"), []string{"2001:db8:1:2::/64 10m0s"}},
	} {
		c := sit(t, "penalties: [{after: 3 denials in 1m, ban: 10m, per: "+test.per+"}]")
		c.note(3, denied(test.client), 429)
		c.want("per "+test.per+" "+test.client.Key(), test.want...)
	}
}

// WAF-13, and everybody else whose ban would hurt others or nobody: no ban is made.
func TestWhoIsSpared(t *testing.T) {
	const yaml = "penalties: [{after: 1 denial in 1m, ban: 10m, per: client}, {after: 1 block in 1m, ban: 10m, per: client}]\nclient: {path: [{name: edge, cidrs: [192.0.2.0/28]}]}\n" +
		"allow: [{cidr: 203.0.113.0/24, reason: monitoring}, {key: k1}]\n"
	as := func(addr string, change func(*weir.Client)) *weir.Client {
		c := from(addr)
		change(c)
		return c
	}
	source := func(s weir.Source) func(*weir.Client) { return func(c *weir.Client) { c.Source = s } }
	for name, client := range map[string]*weir.Client{
		"allowed by address": from("203.0.113.5"),
		"allowed by key":     as("198.51.100.1", func(c *weir.Client) { c.APIKey = "k1" }),
		"loopback":           from("127.0.0.1"),
		"loopback of IPv6":   from("::1"),
		"a proxy of ours":    from("192.0.2.9"),
		"all trusted":        as("192.0.2.9", source(weir.AllTrusted)),
		"no header":          as("198.51.100.1", source(weir.PeerOnly)),
		"unresolved":         {Source: weir.Unresolved, Via: netip.MustParseAddr("192.0.2.9")},
		"no client at all":   {},
		"a proxy unknown":    as("10.0.0.9", func(c *weir.Client) { c.Chain.Codes = weir.HeaderUnexpected }),
	} {
		c := sit(t, yaml)
		c.note(3, denied(client), 429)
		blocked := weir.Decision{Client: *client, Inspection: weir.Inspection{Verdict: weir.Blocked}}
		blocked.Refuse(weir.AttackFound, 403)
		c.note(200, blocked, 403)
		c.want(name)
		if c.bans.Count() != 0 {
			t.Errorf("%s: %d bans", name, c.bans.Count())
		}
	}
	c := sit(t, yaml)
	c.note(1, denied(as("10.0.0.9", source(weir.Forwarded))), 429)
	c.want("a client of a private network", "10.0.0.9/32 10m0s")
	stranger := as("198.51.100.1", func(c *weir.Client) { c.Chain.Codes = weir.HeaderUnexpected })
	c.note(1, denied(stranger), 429)
	c.want("a stranger who sends a chain of his own", "198.51.100.1/32 10m0s")
}

// What offends, and what does not.
func TestWhatOffends(t *testing.T) {
	client := *from("203.0.113.7")
	passed := weir.Decision{Client: client, HTTP: 200}
	tagged := passed
	tagged.Action = weir.Tag
	refused := func(why weir.Reason, status int) weir.Decision {
		d := weir.Decision{Client: client}
		d.Refuse(why, status)
		return d
	}
	blocked := refused(weir.AttackFound, 403)
	blocked.Inspection.Verdict = weir.Blocked
	detected := passed
	detected.Inspection.Verdict = weir.Detected
	for _, test := range []struct {
		after  string
		d      weir.Decision
		status int
		counts bool
	}{
		{"1 denial in 1m", refused(weir.OverLimit, 429), 429, true},
		{"1 denial in 1m", refused(weir.TooManyHeld, 429), 429, true},
		{"1 denial in 1m", refused(weir.StoreFailed, 503), 503, false},
		{"1 denial in 1m", refused(weir.KeyRefused, 401), 401, false},
		{"1 denial in 1m", blocked, 403, false},
		{"1 denial in 1m", tagged, 200, false},
		{"1 denial in 1m", passed, 429, false}, // the upstream's own
		{"1 block in 1m", blocked, 403, true},
		{"1 block in 1m", detected, 200, false},
		{"1 block in 1m", refused(weir.OverLimit, 429), 429, false},
		{"1 status in 1m, statuses: [401, 404]", passed, 401, true},
		{"1 status in 1m, statuses: [401, 404]", passed, 404, true},
		{"1 status in 1m, statuses: [401, 404]", tagged, 404, true},
		{"1 status in 1m, statuses: [401, 404]", passed, 403, false},
		{"1 status in 1m, statuses: [401, 404]", refused(weir.KeyRefused, 401), 401, false}, // Weir's own
	} {
		c := sit(t, "penalties: [{after: "+test.after+", ban: 10m}]")
		c.note(1, test.d, test.status)
		if got := len(c.told) == 1; got != test.counts {
			t.Errorf("%s: %s %d offends: %v, want %v", test.after, test.d.Reason, test.status, got, test.counts)
		}
	}
}

// However the offences of one client spread over replicas, they ban once, as long as the first time.
func TestReplicasPunishOnce(t *testing.T) {
	const replicas, offences = 4, 20
	server := redistest.Start(t)
	var courts [replicas]*court
	for i := range courts {
		store := shared(t, server)
		courts[i] = sitOver(t, "penalties: [{after: 20 denials in 1h, ban: \"10m, 1h\"}]", store, store.Register("bans"))
		courts[i].bans.synced(t)
	}
	d := denied(from("203.0.113.7"))
	var work sync.WaitGroup
	for _, c := range courts {
		work.Go(func() { c.note(offences, d, 429) })
	}
	work.Wait()
	var all []string
	for _, c := range courts {
		all = append(all, c.sentenced()...)
	}
	if diff := cmp.Diff([]string{"203.0.113.7/32 10m0s"}, all); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i, c := range courts {
		if c.bans.synced(t).by(from("203.0.113.7")) == "" {
			t.Errorf("replica %d lets him in", i)
		}
	}
}

// A request waits for no judge: what there is no room for is counted.
func TestOffencesWaitInALine(t *testing.T) {
	c := sit(t, "penalties: [{after: 5000 denials in 1m, ban: 10m}]")
	d := denied(from("203.0.113.7"))
	for range waitingOffences + 7 {
		c.Note(c.at, &d, weir.Outcome{})
	}
	if n := c.PassedOver(); n != 7 {
		t.Errorf("%d were passed over, want 7", n)
	}
}

// Judges work by themselves until they are told to stop.
func TestJudges(t *testing.T) {
	c := sit(t, "penalties: [{after: 3 denials in 1m, ban: 10m}]")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() { c.Run(ctx); close(done) }()
	d := denied(from("203.0.113.7"))
	for range 3 {
		c.Note(c.at, &d, weir.Outcome{})
	}
	for until := time.Now().Add(30 * time.Second); c.bans.Count() == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	c.want("three denials", "203.0.113.7/32 10m0s")
}

// Without penalties nobody is told of anything.
func TestNoPenalties(t *testing.T) {
	if p := NewBox(New(Options{}), nil, slog.New(slog.DiscardHandler)).Penalties(nil, nil, nil); p != nil {
		t.Errorf("%+v", p)
	}
}

// A decision that offends nobody costs no memory.
func TestNoteAllocatesNothing(t *testing.T) {
	c := sit(t, "penalties: [{after: 20 denials in 1m, ban: 10m}, {after: 3 statuses in 1m, ban: 10m, statuses: [404]}]")
	d := weir.Decision{Client: *from("203.0.113.7"), HTTP: 200}
	if n := testing.AllocsPerRun(100, func() { c.Note(c.at, &d, weir.Outcome{HTTP: 200}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
