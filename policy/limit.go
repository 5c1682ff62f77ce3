package policy

import (
	"fmt"
	"math"
	"math/bits"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// An owner is the list that a limit stands in.
type owner struct {
	name string // of the rule; empty if that is broken
	mode weir.Mode
}

// A tierSpec is a wider IPv6 network and how many times the limit it may use.
type tierSpec struct {
	bits  int
	times int64
}

// maxLog is the most that a sliding log keeps.
const maxLog = 10_000

// A listed limit is one as it stands in the file.
type listed struct {
	field string
	*config.Limit
}

// list returns limits that stand at field.
func list(field string, limits []config.Limit) []listed {
	all := make([]listed, len(limits))
	for i := range limits {
		all[i] = listed{at(field, i), &limits[i]}
	}
	return all
}

// at returns the field of the i-th item of a list.
func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// limitsOf compiles a list of limits. Those that are off are checked and left out; of those that are
// broken already only the names are taken.
func (c *compiler) limitsOf(o owner, from []listed) []counter {
	var counters []counter
	for _, l := range from {
		if c.cfg.Broken(l.field) {
			c.claim(l.field+".name", o.limitName(from, l, nil))
			continue
		}
		before := len(c.problems)
		k := c.counter(l.field, l.Limit)
		k.limit.Mode = max(k.limit.Mode, o.mode)
		k.limit.Name = o.limitName(from, l, &k)
		c.claim(l.field+".name", k.limit.Name)
		if config.HasErrors(c.problems[before:]) || k.limit.Mode == weir.Off || k.limit.Name == "" {
			continue
		}
		k.label = label(k.limit)
		k.tiers = c.widen(&k)
		counters = append(counters, k)
	}
	return counters
}

// limitName returns the name of l, one of from, compiled to k, or nothing if that depends on what is broken.
func (o *owner) limitName(from []listed, l listed, k *counter) string {
	switch name := l.Name; {
	case name != "" || o.name == "":
		return name
	case len(from) == 1:
		return o.name
	case k == nil:
		return ""
	}
	return o.name + "/" + k.limit.Rate + "/" + perName(k.per)
}

// claim notes that name, unless it is not known, is taken, and complains if it was before.
func (c *compiler) claim(field, name string) {
	if name == "" {
		return
	}
	if where, ok := c.limits[name]; ok {
		c.fail(field, fmt.Sprintf("%s is what the limit at %s is called, too", name, where), "give each a name of its own, since counters go by it")
		return
	}
	c.limits[name] = field
}

// perName is what stands for parts in the name of a limit.
func perName(per []part) string {
	if len(per) == 0 {
		return "global"
	}
	names := make([]string, len(per))
	for i, p := range per {
		names[i] = p.String()
	}
	return strings.Join(names, "+")
}

// counter compiles one limit, all but its name and tiers.
func (c *compiler) counter(field string, from *config.Limit) counter {
	l := &weir.Limit{Mode: mode(from.Mode)}
	switch {
	case from.Rate != nil:
		rate(l, from)
	case from.InFlight != nil:
		l.Algorithm, l.Max, l.Rate = weir.Concurrency, *from.InFlight, fmt.Sprintf("%d in flight", *from.InFlight)
	case from.Quota != nil:
		c.quota(l, field, from)
	default:
		c.fail(field, "it does not say how much may pass", "give rate (60/1m), in_flight (20) or quota (1000/day)")
	}
	return counter{limit: l, per: c.per(field+".per", from.Per)}
}

func rate(l *weir.Limit, from *config.Limit) {
	l.Algorithm = weir.Algorithm(choose(from.Algorithm, "sliding_window", "sliding_log", "fixed_window", "token_bucket"))
	l.Rate, l.Max, l.Window = from.Rate.String(), from.Rate.N, from.Rate.Window
	if l.Algorithm != weir.TokenBucket {
		return
	}
	l.Burst = l.Max
	if from.Burst != nil {
		l.Burst = *from.Burst
	}
}

func (c *compiler) quota(l *weir.Limit, field string, from *config.Limit) {
	l.Algorithm, l.Max, l.Rate = weir.Quota, from.Quota.N, from.Quota.String()
	l.Period = weir.Period(choose(from.Quota.Unit, "day", "week", "month"))
	location, err := time.LoadLocation(from.Timezone)
	if err != nil {
		c.fail(field+".timezone", from.Timezone+" is no time zone", "write a name such as Europe/Berlin, or leave it out for UTC")
		return
	}
	l.Location = location
}

// per compiles what a limit is counted per. Nothing is the client.
func (c *compiler) per(field string, from config.List) []part {
	if len(from) == 0 {
		return []part{{kind: perClient}}
	}
	if len(from) == 1 && from[0] == "global" {
		return nil
	}
	var parts []part
	for _, text := range from {
		p, ok := parsePart(text)
		switch {
		case text == "global":
			c.fail(field, "global is one count for all and joins no list", "leave it out")
		case p == part{perHeader, "Host"}:
			c.fail(field, "Host is kept apart from the other headers", "write host")
		case !ok:
			c.fail(field, text+" is nothing to count per", "write client, ip, key, plan, global, host, method, path, rule, header:NAME or cookie:NAME")
		default:
			parts = append(parts, p)
		}
	}
	c.lintPer(field, parts)
	return parts
}

// parsePart reads one thing to count per.
func parsePart(text string) (part, bool) {
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		name = textproto.CanonicalMIMEHeaderKey(name)
		return part{perHeader, name}, true
	}
	if name, ok := strings.CutPrefix(text, "cookie:"); ok {
		return part{perCookie, name}, true
	}
	i := slices.Index(kindNames[:perHeader], text)
	return part{kind: kind(i)}, i >= 0
}

// label returns what stands between the tag and the parts of a key.
func label(l *weir.Limit) string {
	window := l.Window.String()
	switch l.Algorithm {
	case weir.Concurrency:
		window = "-"
	case weir.Quota:
		window = l.Period.String() + "@" + l.Location.String()
	}
	return ":" + string(appendEscaped(nil, l.Name)) + ":" + l.Algorithm.String() + ":" + window + ":"
}

// widen returns the tiers of a rate that may be counted per address.
func (c *compiler) widen(k *counter) []tier {
	if k.limit.Algorithm == weir.Concurrency || k.limit.Algorithm == weir.Quota || !slices.ContainsFunc(k.per, part.mayBeAddress) {
		return nil
	}
	tiers := make([]tier, len(c.tiers))
	for i, t := range c.tiers {
		wide := *k.limit
		wide.Name = fmt.Sprintf("%s@/%d", wide.Name, t.bits)
		wide.Max, wide.Burst = times(wide.Max, t.times), times(wide.Burst, t.times)
		wide.Rate = config.Rate{N: wide.Max, Window: wide.Window}.String()
		if wide.Algorithm == weir.SlidingLog && wide.Max > maxLog {
			wide.Algorithm = weir.SlidingWindow
		}
		c.claim("client.ipv6_tiers", wide.Name)
		tiers[i] = tier{t.bits, &wide, label(&wide)}
	}
	return tiers
}

// mayBeAddress reports whether the address is, or stands in for, what p is read from.
func (p part) mayBeAddress() bool {
	switch p.kind {
	case perHost, perMethod, perPath, perRule:
		return false
	}
	return true
}

// times multiplies without passing the largest number.
func times(n, by int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(by))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
