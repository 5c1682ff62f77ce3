package replay

import (
	"cmp"
	_ "embed"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
)

// Schema returns the JSON Schema of a report.
func Schema() []byte { return slices.Clone(schema) }

//go:embed report.schema.json
var schema []byte

// A Report is what a replay found.
type Report struct {
	Version     int          `json:"version"` // of this form: 1
	Interrupted bool         `json:"interrupted"`
	Logs        []LogReport  `json:"logs"`
	From        time.Time    `json:"from"` // when the first request began; the zero time if there is none
	To          time.Time    `json:"to"`   // when the last one did
	Lines       Lines        `json:"lines"`
	Broken      []BrokenLine `json:"broken"` // the first of them
	Policy      Side         `json:"policy"`
	Against     *Side        `json:"against,omitempty"`
	Comparison  *Comparison  `json:"comparison,omitempty"`
}

// A LogReport is a log that was read, and by which format.
type LogReport struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	Writer string `json:"writer"`
	Auto   string `json:"auto,omitempty"` // how the format was found; empty if it was told
	Ends   bool   `json:"ends"`           // its times are those of the end of requests, and it has no durations
}

// Lines are what became of the lines of all logs.
type Lines struct {
	Read         int64 `json:"read"`
	Decided      int64 `json:"decided"`
	NoRequest    int64 `json:"no_request"`    // about no HTTP request
	Broken       int64 `json:"broken"`        // cannot be read
	NoClient     int64 `json:"no_client"`     // with no address
	LacksHost    int64 `json:"lacks_host"`    // which rule takes them depends on the host, which is not there
	LacksHeaders int64 `json:"lacks_headers"` // OPTIONS requests that may be exempt as a browser's question
	Late         int64 `json:"late"`          // decided, but further behind than the window
}

// A BrokenLine is a line that cannot be read.
type BrokenLine struct {
	Log string `json:"log"`
	accesslog.Broken
}

// A Side is what one policy did.
type Side struct {
	Name          string  `json:"name"`
	Counts                // of all requests
	Admitted      int64   `json:"admitted"`
	Tagged        int64   `json:"tagged"` // admitted, but over a limit whose action is tag
	RefusedShare  float64 `json:"refused_share"`
	NotReplayable []Lack  `json:"not_replayable"`
	Evictions     uint64  `json:"evictions"` // counters that were forgotten for want of room: some counts are too low

	Reasons        []Group       `json:"reasons"`
	Rules          []Group       `json:"rules"`
	Limits         []LimitReport `json:"limits"`
	Paths          []Group       `json:"paths"`
	Hours          []Hour        `json:"hours"`
	Clients        Clients       `json:"clients"`
	FalsePositives []Hurt        `json:"false_positives"`

	// Proxies are the CDNs and load balancers whose addresses are most of the busiest clients: the log then
	// has them in place of the clients.
	Proxies []string `json:"proxies"`
}

// A Group is a part of the requests: those of a reason, rule, path group or client.
type Group struct {
	Name string `json:"name"`
	Counts
}

// An Hour is the requests of one hour, in UTC.
type Hour struct {
	Start time.Time `json:"start"`
	Counts
}

// Clients are who asked.
type Clients struct {
	Seen      int     `json:"seen"`
	Hurt      int64   `json:"hurt"` // refused at least once
	HurtShare float64 `json:"hurt_share"`
	Busiest   []Group `json:"busiest"`
	List      []Hurt  `json:"list"`      // who was refused most, by rule
	Unlisted  int64   `json:"unlisted"`  // refusals of more pairs of client and rule than are remembered
	Untracked int64   `json:"untracked"` // requests of more clients than are counted apart
}

// A Hurt is a client that a rule refused.
type Hurt struct {
	Client  string    `json:"client"`
	Rule    string    `json:"rule"`
	Refused int64     `json:"refused"`
	First   time.Time `json:"first"`   // refusal
	Lockout float64   `json:"lockout"` // seconds, the longest
	Before  int64     `json:"before"`  // requests before the first refusal
	Good    int64     `json:"good"`    // of these, answered 2xx or 3xx
}

// A LimitReport is what was asked of a limit.
type LimitReport struct {
	Name      string   `json:"name"`
	Rule      string   `json:"rule"` // empty: for every request
	Rate      string   `json:"rate"`
	Algorithm string   `json:"algorithm"`
	Mode      string   `json:"mode"`
	Per       []string `json:"per"`
	Limit     int64    `json:"limit"` // what passes at once
	Max       int64    `json:"max"`   // what passes per window; of quota per period
	Asked     int64    `json:"asked"` // requests that charge it
	Refused   int64    `json:"refused"`
	Peak      int64    `json:"peak"`     // the most that was used of one counter at once
	Headroom  float64  `json:"headroom"` // the share of the limit that the busiest counter left
	Demand    *Demand  `json:"demand,omitempty"`
	Curve     []Point  `json:"curve,omitempty"`
}

// A Demand is how much was asked for, granted or not, per counter and window of the limit.
type Demand struct {
	Windows int64  `json:"windows"` // counters times windows with at least one request
	P50     uint64 `json:"p50"`
	P95     uint64 `json:"p95"`
	P99     uint64 `json:"p99"`
	P999    uint64 `json:"p99_9"`
	Max     uint64 `json:"max"`
}

// A Point says what a limit of so much per window, counted as fixed_window, would have refused.
type Point struct {
	Limit   uint64  `json:"limit"`
	Refused uint64  `json:"refused"` // of what was asked
	Share   float64 `json:"share"`
	Windows int64   `json:"windows"` // counters times windows with at least one refusal
}

// A Comparison is what the policy changes for the requests of the log.
type Comparison struct {
	Both         int64  `json:"both"`          // refused by both
	NewlyRefused int64  `json:"newly_refused"` // by the policy, not by the one it is compared with
	NewlyPassed  int64  `json:"newly_passed"`
	Suffer       []Hurt `json:"suffer"` // clients that were refused nothing before
	Freed        []Hurt `json:"freed"`  // clients that are refused nothing any more
	SufferAll    int    `json:"suffer_all"`
	FreedAll     int    `json:"freed_all"`
}

func (c *Comparison) add(refused, before bool) {
	switch {
	case refused && before:
		c.Both++
	case refused:
		c.NewlyRefused++
	case before:
		c.NewlyPassed++
	}
}

// How long the lists of a report are.
const (
	listed       = 100
	busiest      = 25
	curvePoints  = 24
	mostlyGood   = 0.8 // the share of 2xx and 3xx that makes a false positive likely,
	enoughBefore = 5   // of so many requests at least
)

// Report ends the replay and returns what was found. It is to be called once.
func (r *Replay) Report(interrupted bool) *Report {
	r.window.flush()
	r.counted.Late = r.window.late
	out := &r.report
	out.Version, out.Interrupted, out.Lines = 1, interrupted, r.counted
	out.Policy = r.tried.report()
	if r.against != nil {
		before := r.against.report()
		out.Against, out.Comparison = &before, &r.compare
		out.Comparison.clients(r.tried.tally, r.against.tally)
	}
	return out
}

// clients tells who suffers newly, and who is freed.
func (c *Comparison) clients(now, before *tally) {
	c.Suffer, c.SufferAll = onlyIn(now, before)
	c.Freed, c.FreedAll = onlyIn(before, now)
}

// onlyIn returns the clients that a refused and b did not.
func onlyIn(a, b *tally) ([]Hurt, int) {
	var list []Hurt
	clients := map[uint64]bool{}
	for k, h := range a.hurt {
		if s, ok := b.clients.peek(k.client); !ok || s.b&hurtBit == 0 {
			list = append(list, h.report(k.rule))
			clients[k.client] = true
		}
	}
	return mostRefused(list), len(clients)
}

func mostRefused(list []Hurt) []Hurt {
	slices.SortFunc(list, func(a, b Hurt) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), a.First.Compare(b.First), strings.Compare(a.Client, b.Client), strings.Compare(a.Rule, b.Rule))
	})
	return append([]Hurt{}, list[:min(len(list), listed)]...) // an empty list is one, too
}

func (s *side) report() Side {
	s.end(math.MaxInt64)
	s.scribe.settle()
	t := s.tally
	out := Side{
		Name: s.name, Counts: t.total, Admitted: t.total.Requests - t.total.Refused, Tagged: t.tagged,
		RefusedShare: share(t.total.Refused, t.total.Requests), NotReplayable: s.lacks, Evictions: s.store.Evictions(),
		Limits: s.limits(), Hours: hours(t.hours),
		Clients: Clients{
			Seen: t.clients.n, Hurt: t.hurtAll, HurtShare: share(t.hurtAll, int64(t.clients.n)),
			Busiest: t.busiest(), Unlisted: t.unlisted, Untracked: t.untracked,
		},
	}
	out.Paths = groups(t.paths, listed)
	out.Reasons, out.Rules = groups(t.reasons.all, math.MaxInt), groups(t.rules.all, math.MaxInt)
	out.Proxies = proxies(s.policy.Resolver(), out.Clients.Busiest)
	var likely, all []Hurt
	for k, h := range t.hurt {
		one := h.report(k.rule)
		all = append(all, one)
		if h.before >= enoughBefore && float64(h.good) >= mostlyGood*float64(h.before) {
			likely = append(likely, one)
		}
	}
	out.Clients.List, out.FalsePositives = mostRefused(all), mostRefused(likely)
	return out
}

func share(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

func (h *hurt) report(rule string) Hurt {
	return Hurt{
		Client: h.client, Rule: rule, Refused: h.refused, First: time.Unix(0, h.first).UTC(),
		Lockout: h.lockout().Seconds(), Before: h.before, Good: h.good,
	}
}

// groups returns the parts with most refusals, then most requests.
func groups(m map[string]*Counts, most int) []Group {
	list := make([]Group, 0, len(m))
	for name, c := range m {
		list = append(list, Group{name, *c})
	}
	sortGroups(list)
	return list[:min(len(list), most)]
}

func sortGroups(list []Group) {
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
}

// proxies returns whose published addresses make most of the busiest clients' requests; none if they are
// fewer.
func proxies(r *clientip.Resolver, busiest []Group) []string {
	names, known, all := []string{}, int64(0), int64(0)
	for _, g := range busiest {
		all += g.Requests
		network, err := netip.ParsePrefix(g.Name)
		if err != nil {
			continue // unresolved
		}
		if name := r.KnownProxy(network.Addr()); name != "" {
			known += g.Requests
			names = append(names, name)
		}
	}
	if 2*known <= all {
		return []string{}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hours(m map[int64]*Counts) []Hour {
	list := make([]Hour, 0, len(m))
	for _, h := range slices.Sorted(maps.Keys(m)) {
		list = append(list, Hour{time.Unix(h*3600, 0).UTC(), *m[h]})
	}
	return list
}

// busiest returns the clients with most requests, of those whose address was kept. Their refusals are
// those that are listed.
func (t *tally) busiest() []Group {
	refused := map[uint64]int64{}
	for k, h := range t.hurt {
		refused[k.client] += h.refused
	}
	list := make([]Group, 0, len(t.named))
	for hash, name := range t.named {
		if s, ok := t.clients.peek(hash); ok {
			list = append(list, Group{name, Counts{Requests: int64(s.a), Refused: refused[hash]}})
		}
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), busiest)]
}

// limits reports the limits that were charged, in the order of the policy.
func (s *side) limits() []LimitReport {
	list := []LimitReport{}
	seen := map[*weir.Limit]bool{}
	for _, r := range s.policy.Rules() {
		for _, l := range r.Limits() {
			for _, one := range append([]*weir.Limit{l.Limit}, l.Tiers...) {
				u := s.tally.limits[one]
				if u == nil || seen[one] || s.tally.without[one] {
					continue
				}
				seen[one] = true
				u.finish()
				list = append(list, u.report(r, &l))
			}
		}
	}
	return list
}

func (u *use) report(r *policy.Rule, l *policy.Limit) LimitReport {
	out := LimitReport{
		Name: u.limit.Name, Rule: r.Name, Rate: u.limit.Rate, Algorithm: u.limit.Algorithm.String(), Mode: u.limit.Mode.String(),
		Per: append([]string{}, l.Per...), Limit: u.limit.Capacity(), Max: u.limit.Max, Asked: u.asked, Refused: u.refused, Peak: u.peak,
		Headroom: 1 - share(u.peak, u.limit.Capacity()),
	}
	if l.Global {
		out.Rule = ""
	}
	if u.limit.Capacity() == 0 {
		out.Headroom = 0
	}
	if u.demand.values > 0 {
		d := u.demand.spread()
		out.Demand = &Demand{u.demand.values, d.at(0.5), d.at(0.95), d.at(0.99), d.at(0.999), u.demand.most}
		out.Curve = d.curve(uint64(max(u.limit.Max, 0)))
	}
	return out
}

// curve returns what candidate limits would have refused: the percentiles, the limit in force, and steps
// between 1 and the maximum.
func (s spread) curve(limit uint64) []Point {
	candidates := []uint64{s.at(0.5), s.at(0.75), s.at(0.9), s.at(0.95), s.at(0.99), s.at(0.999), s.h.most}
	if limit > 0 && limit < 4*s.h.most {
		candidates = append(candidates, limit)
	}
	for steps := curvePoints - len(candidates); steps > 0; steps-- {
		candidates = append(candidates, uint64(math.Ceil(math.Pow(float64(s.h.most), float64(steps)/curvePoints))))
	}
	slices.Sort(candidates)
	var points []Point
	for _, c := range slices.Compact(candidates) {
		excess, windows := s.over(c)
		points = append(points, Point{c, excess, float64(excess) / float64(s.h.sum), windows})
	}
	return points
}
