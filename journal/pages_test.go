package journal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
)

func sumOf(numbers []uint64) (sum uint64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// Whoever reads, and whatever, reads all that was recorded before, on pages that are empty, begun or full.
func TestEveryReaderReadsAll(t *testing.T) {
	readers := map[string]func(*Journal) int{
		"totals":        func(j *Journal) int { return int(j.Totals().Requests) },
		"recent":        func(j *Journal) int { return len(j.Recent(1000)) },
		"refusals":      func(j *Journal) int { got, _ := j.RefusedAfter(0, 1000); return len(got) },
		"last refusal":  func(j *Journal) int { _, newest := j.RefusedAfter(0, 1000); return int(newest) },
		"resolutions":   func(j *Journal) int { return int(sumOf(j.Resolutions())) },
		"chain entries": func(j *Journal) int { return int(sumOf(j.ChainEntries())) },
		"fallbacks":     func(j *Journal) int { return int(j.Fallbacks()) },
		"series":        func(j *Journal) int { return int(j.Series(1)[0].Requests) },
		"top":           func(j *Journal) int { return int(j.Top(TopQuery{}).Requests) },
		"use":           func(j *Journal) int { return int(j.Use("203.0.113.7/32", Hour).Requests) },
		"metrics": func(j *Journal) int {
			return int(scrape(t, j)[`weir_decisions_total{action="reject",front="proxy",rule="search"}`])
		},
		"a reload": func(j *Journal) int {
			j.SetRules([]string{"search"})
			return int(j.counts.totals().Rules[0].Requests)
		},
	}
	for name, read := range readers {
		for _, recorded := range []int{0, 1, pageNotes, 2*pageNotes - 1, 2 * pageNotes, 2*pageNotes + 1, 200} {
			j := New(Options{Rules: []string{"search"}, Now: func() time.Time { return noon.Add(time.Second) }})
			one, other := refused(search, weir.Reject), refused(search, weir.Reject)
			one.Degraded, other.Degraded = true, true
			for i := range recorded {
				j.Record([]*weir.Decision{one, other}[i%2], weir.Outcome{HTTP: 429})
			}
			if got := read(j); got != recorded {
				t.Fatalf("%s: %d recorded, %d read", name, recorded, got)
			}
		}
	}
}

// The chain diagnosis speaks at once when it has seen enough, whoever asks first.
func TestFindingsReadAll(t *testing.T) {
	j := New(Options{Now: func() time.Time { return noon }})
	behindUnknownProxy(j, chain.Enough-1)
	if got := j.Findings(); len(got) != 0 {
		t.Errorf("%v of too few", got)
	}
	behindUnknownProxy(j, 1)
	if got := j.Findings(); len(got) == 0 {
		t.Error("nothing of enough")
	}
}

// However long nobody reads, what ended in a second is counted in it, on whatever pages it was noted.
func TestSecondsAreKeptApart(t *testing.T) {
	j, c, record := playing(Options{})
	random, want := rand.New(rand.NewPCG(1, 2)), []uint64{}
	for range 120 {
		n := random.IntN(4)
		for range n {
			record(1, passed(search)) // each with a page of its own, or nearly
		}
		want = append(want, uint64(n))
		c.now = c.now.Add(time.Second)
	}
	var got []uint64
	for _, p := range j.Series(len(want)) {
		got = append(got, p.Requests)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	minute := want[60:] // noon plus 120 seconds is the beginning of a piece
	if got := j.Top(TopQuery{By: ByClient, Within: Minute}); got.Requests != sumOf(minute) {
		t.Errorf("%d requests in the last minute, want %d", got.Requests, sumOf(minute))
	}
}

// A crowd is what a slow right journal would know of what many record at once.
type crowd struct {
	requests, refused, shadow uint64
	by                        [rankings]map[string]uint64
	answers                   [6]uint64
	seconds                   float64 // of all answers
}

func newCrowd() *crowd {
	c := new(crowd)
	for i := range c.by {
		c.by[i] = map[string]uint64{}
	}
	return c
}

func (c *crowd) add(d *weir.Decision, o weir.Outcome) {
	c.requests++
	c.by[ByClient][d.Client.Key()]++
	c.by[ByPath][d.Request.Path]++
	c.by[ByRule][d.Rule.Name]++
	c.answers[o.HTTP/100]++
	c.seconds += o.Duration.Seconds()
	if d.Refused() {
		c.refused++
	}
	if slices.ContainsFunc(d.Statuses, func(s weir.Status) bool { return !s.Allowed && s.Limit == trial }) {
		c.shadow++
		c.by[ByShadow][d.Client.Key()]++
	}
}

func (c *crowd) merge(o *crowd) {
	c.requests, c.refused, c.shadow, c.seconds = c.requests+o.requests, c.refused+o.refused, c.shadow+o.shadow, c.seconds+o.seconds
	for i := range c.answers {
		c.answers[i] += o.answers[i]
	}
	for by := range c.by {
		for key, n := range o.by[by] {
			c.by[by][key] += n
		}
	}
}

// visit makes up a request and records it.
func (c *crowd) visit(j *Journal, random *rand.Rand, rules []*weir.Rule) {
	d := from(passed(rules[random.IntN(len(rules))]), fmt.Sprintf("10.0.%d.%d", random.IntN(8), random.IntN(256)))
	d.Request.Path = []string{"/", "/a", "/a/b"}[random.IntN(3)]
	d.At = noon.Add(time.Duration(random.IntN(30)) * time.Second)
	o := weir.Outcome{HTTP: 100 + random.IntN(500), Duration: time.Duration(random.IntN(8)) * time.Second / 4}
	if random.IntN(3) == 0 {
		d.Action, d.Reason = weir.Reject, weir.OverLimit
	}
	if random.IntN(5) == 0 {
		d.Statuses = append(d.Statuses, weir.Status{Limit: trial})
	}
	c.add(d, o)
	j.Record(d, o)
}

// check holds the journal to the crowd, once nobody records any more.
func (c *crowd) check(t *testing.T, j *Journal) {
	t.Helper()
	totals, shadow, rules := j.Totals(), uint64(0), map[string]uint64{}
	for _, r := range totals.Rules {
		rules[r.Rule], shadow = r.Requests, shadow+r.Shadow
	}
	got := []uint64{totals.Requests, totals.Refused, shadow, sumOf(j.ChainEntries()), sumOf(j.Resolutions()), j.ring.last.Load()}
	want := []uint64{c.requests, c.refused, c.shadow, c.requests, c.requests, c.requests}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests, refused, shadow, chain entries, resolutions, last number (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.by[ByRule], rules); diff != "" {
		t.Errorf("by rule (-want +got):\n%s", diff)
	}
	series := scrape(t, j)
	for class, n := range c.answers[1:] {
		if got := series[fmt.Sprintf(`weir_responses_total{class="%dxx"}`, class+1)]; got != float64(n) {
			t.Errorf("%v answers of class %d, want %d", got, class+1, n)
		}
	}
	if n, sum := series["weir_request_duration_seconds_count"], series["weir_request_duration_seconds_sum"]; n != float64(c.requests) || sum != c.seconds {
		t.Errorf("%v answers took %v s, want %d and %v s", n, sum, c.requests, c.seconds)
	}
	points := uint64(0)
	for _, p := range j.Series(keptSeconds) {
		points += p.Requests
	}
	if points != c.requests {
		t.Errorf("the seconds have %d requests, want %d", points, c.requests)
	}
	c.checkBounds(t, j)
}

func (c *crowd) checkBounds(t *testing.T, j *Journal) {
	t.Helper()
	for by := range c.by {
		top := j.Top(TopQuery{By: Ranking(by), Within: Hour, Most: 5000})
		if top.Requests != c.requests || top.Refused != c.refused {
			t.Errorf("ranking %d is of %d requests, %d refused; want %d and %d", by, top.Requests, top.Refused, c.requests, c.refused)
		}
		for _, talker := range top.Talkers {
			if n := c.by[by][talker.Key]; n < talker.Requests || n > talker.Requests+talker.Error {
				t.Errorf("ranking %d: %s came %d times; the top says %d to %d", by, talker.Key, n, talker.Requests, talker.Requests+talker.Error)
			}
		}
	}
}

// What many record while others read adds up to what a slow right journal knows, and who follows the refusals has
// each of them once.
func TestManyRecordAndRead(t *testing.T) {
	const goroutines, each = 8, 500
	names, rules := []string{}, []*weir.Rule{}
	for i := range 3 {
		rules = append(rules, &weir.Rule{Name: fmt.Sprint("rule", i)})
		names = append(names, rules[i].Name)
	}
	j := New(Options{Recent: goroutines * each, Rules: names, Now: func() time.Time { return noon.Add(time.Minute) }})
	crowds, all := make([]*crowd, goroutines), newCrowd()
	var recording, reading sync.WaitGroup
	for g := range goroutines {
		crowds[g] = newCrowd()
		recording.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for range each {
				crowds[g].visit(j, random, rules)
			}
		})
	}
	over, followed := make(chan struct{}), 0
	reading.Go(func() { followed = follow(j, over) })
	reading.Go(func() { watch(t, j, over) })
	recording.Wait()
	close(over)
	reading.Wait()
	for _, c := range crowds {
		all.merge(c)
	}
	all.check(t, j)
	if followed != int(all.refused) {
		t.Errorf("%d refusals were followed, want %d", followed, all.refused)
	}
}

// follow counts the refusals that it is told of, until and after over.
func follow(j *Journal, over chan struct{}) (n int) {
	newest := uint64(0)
	for last := false; ; {
		refusals, to := j.RefusedAfter(newest, 1<<30)
		n, newest = n+len(refusals), to
		if last {
			return n
		}
		select {
		case <-over:
			last = true
		default:
		}
	}
}

// watch reads everything else again and again; nothing falls.
func watch(t *testing.T, j *Journal, over chan struct{}) {
	before := Totals{}
	for {
		select {
		case <-over:
			return
		default:
		}
		now := j.Totals()
		if now.Requests < before.Requests || now.Refused < before.Refused || now.Refused > now.Requests {
			t.Errorf("%+v after %+v", now, before)
		}
		before = now
		if top := j.Top(TopQuery{By: ByClient, Within: Minute, Most: 3}); top.Requests < now.Requests {
			t.Errorf("the top is of %d requests after %d", top.Requests, now.Requests)
		}
		j.Recent(20)
		j.Series(60)
		j.Findings()
		scrape(t, j)
	}
}

// Decisions are spread over the pages, and each has the same again.
func TestDecisionsAreSpreadOverPages(t *testing.T) {
	p, used := newPages(), map[*page]bool{}
	for range 64 * len(p.list) {
		d := new(weir.Decision)
		first := p.of(d)
		if again := p.of(d); again != first {
			t.Fatal("one decision has two pages")
		}
		used[first] = true
	}
	if len(used) < len(p.list)*3/4 {
		t.Errorf("%d of %d pages are used", len(used), len(p.list))
	}
}
