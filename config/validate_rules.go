package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a time zone is good or bad whatever the machine has installed
)

// Labels are the names of one kind that were given, and the field of each.
type labels map[string]string

// limits judges the limits that stand outside of rules, and every limit's name.
func (k *checker) limits() {
	k.limitList("limits", k.Limits)
	k.limitList("default.limits", k.Default.Limits)
	names := labels{}
	k.unique(names, "limits", k.Limits)
	for i := range k.Rules {
		k.unique(names, fmt.Sprintf("rules[%d].limits", i), k.Rules[i].Limits)
	}
	k.unique(names, "default.limits", k.Default.Limits)
	for _, plan := range slices.Sorted(maps.Keys(k.Plans)) {
		for i, l := range k.Plans[plan].Limits {
			k.name(names, fmt.Sprintf("plans.%s.limits[%d].name", plan, i), l.Name)
		}
	}
}

func (k *checker) unique(names labels, path string, limits []Limit) {
	for i, l := range limits {
		k.name(names, fmt.Sprintf("%s[%d].name", path, i), l.Name)
	}
}

// name judges the name at field, and notes it if another field has it.
func (k *checker) name(names labels, field, name string) {
	k.want(field, name, wantName(name))
	first, taken := names[name]
	switch {
	case name == "":
	case taken:
		k.wrong(field, fmt.Sprintf("%s is the name of %s on line %d, too", shown(name), first, k.places[first].line), "give each its own, since counters go by it")
	default:
		names[name] = field
	}
}

func (k *checker) limitList(path string, limits []Limit) {
	for i := range limits {
		k.limit(fmt.Sprintf("%s[%d]", path, i), &limits[i])
	}
	k.hoarding(path, limits)
}

// hoarding warns where one client can hold all that may be in flight.
func (k *checker) hoarding(path string, limits []Limit) {
	personal := func(l Limit) bool {
		return len(l.Per) == 0 || slices.ContainsFunc(l.Per, func(p string) bool {
			return p != "global" && p != "rule" && p != "host" && p != "method" && p != "path"
		})
	}
	if slices.ContainsFunc(limits, func(l Limit) bool { return l.InFlight != nil && personal(l) }) {
		return
	}
	for i, l := range limits {
		if l.InFlight != nil && *l.InFlight > 0 {
			k.doubt(fmt.Sprintf("%s[%d].in_flight", path, i), "one client can hold all of it", "add a smaller in_flight per: client")
		}
	}
}

func (k *checker) limit(path string, l *Limit) {
	k.oneAmount(path)
	k.rate(path, l)
	k.burst(path, l)
	k.quota(path, l)
	k.per(path+".per", l.Per)
	if l.Algorithm != "" && l.Rate == nil && !k.Given(path+".rate") {
		k.wrong(path+".algorithm", "only a rate has an algorithm", "remove it")
	}
}

// oneAmount asks for exactly one of what a limit may count.
func (k *checker) oneAmount(path string) {
	var amounts []string
	for _, key := range []string{"rate", "in_flight", "quota"} {
		if k.Given(path + "." + key) {
			amounts = append(amounts, key)
		}
	}
	switch {
	case len(amounts) == 0 && k.Given(path):
		k.wrong(path, "has no rate, in_flight or quota", "give one, as in rate: 60/1m")
	case len(amounts) > 1:
		k.wrong(path+"."+amounts[1], "stands beside "+amounts[0], "keep one; a second limit may hold the other")
	}
}

func (k *checker) rate(path string, l *Limit) {
	if l.Rate == nil {
		return
	}
	switch at := path + ".rate"; {
	case l.Rate.Unit == "month" || l.Rate.Unit == "week":
		days := map[string]string{"week": "7d", "month": "30d"}[l.Rate.Unit]
		k.wrong(at, l.Rate.String(), fmt.Sprintf("want a duration, as in %d/%s, or quota: %[1]d/%[3]s", l.Rate.N, days, l.Rate.Unit))
	case l.Algorithm == "sliding_log" && l.Rate.N > 10_000:
		k.wrong(at, fmt.Sprintf("%s is too much for sliding_log", l.Rate), "want at most 10000, or algorithm: sliding_window")
	}
}

func (k *checker) burst(path string, l *Limit) {
	if l.Burst == nil {
		return
	}
	switch at := path + ".burst"; {
	case l.Algorithm != "token_bucket":
		k.wrong(at, "only a token_bucket has a burst", "add algorithm: token_bucket, or remove it")
	case l.Rate == nil:
	case l.Rate.N == 0 && *l.Burst > 0:
		k.wrong(at, fmt.Sprintf("%d would pass where %s lets nothing pass", *l.Burst, l.Rate), "remove it")
	case l.Rate.N > 0 && *l.Burst == 0:
		k.wrong(at, "0", "want at least 1; rate: 0/1m lets nothing pass")
	}
}

func (k *checker) quota(path string, l *Limit) {
	if l.Quota != nil {
		k.period(path+".quota", l.Quota)
	}
	if l.Timezone == "" {
		return
	}
	at := path + ".timezone"
	if l.Quota == nil && !k.Given(path+".quota") {
		k.wrong(at, "only a quota has a time zone", "remove it")
	}
	k.zone(at, l.Timezone)
}

// period asks for a period of the calendar.
func (k *checker) period(field string, quota *Rate) {
	if quota.Unit != "day" && quota.Unit != "week" && quota.Unit != "month" {
		k.wrong(field, quota.String(), fmt.Sprintf("want a calendar period, as in %d/day, %[1]d/week or %[1]d/month", quota.N))
	}
}

func (k *checker) per(path string, per List) {
	if k.Given(path) && len(per) == 0 {
		k.wrong(path, "an empty list", "want at least one, as in per: client")
	}
	for i, part := range per {
		at := fmt.Sprintf("%s[%d]", path, i)
		k.wrongIf(wantPer(part), at, part)
		if slices.Contains(per[:i], part) {
			k.wrong(at, shown(part)+" is given twice", "remove it")
		}
	}
}

func (k *checker) rules() {
	names := labels{}
	for i := range k.Rules {
		r := &k.Rules[i]
		path := fmt.Sprintf("rules[%d]", i)
		if k.missing(path+".name", r.Name) && k.Given(path) {
			k.wrong(path+".name", "missing", "give the rule a name of its own, since counters go by it")
		}
		k.name(names, path+".name", r.Name)
		k.where(path, r)
		k.limitList(path+".limits", r.Limits)
		k.effect(path, r)
		k.action(path, r)
		k.count(path, r)
		k.cost(path, r)
	}
}

// where judges what requests the rule takes.
func (k *checker) where(path string, r *Rule) {
	k.want(path+".host", r.Host, wantHost(r.Host))
	k.want(path+".path", r.Path, wantPath(r.Path))
	k.template(path+".path", r.Path)
	k.methods(path+".methods", r.Methods)
	if cmp.Or(r.Host, r.Path) == "" && len(r.Methods) == 0 && !k.broken(path+".path") && !k.broken(path+".host") && !k.broken(path+".methods") && !k.unknownKey(path) {
		k.doubt(path, "has no host, path or methods, so it takes every request and default none", "give it a path, or write it as default")
	}
}

// template doubts a path in the form of a framework's route. Its {id} or :id is a literal here.
func (k *checker) template(field, pattern string) {
	for segment := range strings.SplitSeq(pattern, "/") {
		inside, isBraced := strings.CutPrefix(segment, "{")
		if isBraced && strings.HasSuffix(inside, "}") || len(segment) > 1 && segment[0] == ':' {
			k.doubt(field, shown(segment)+" takes only what is written so", "write * for any one segment")
			return
		}
	}
}

// unknownKey reports whether the rule at path has a key that could not be made sense of.
func (k *checker) unknownKey(path string) bool {
	known := names(fieldsOf(reflect.ValueOf(Rule{})))
	for field := range k.bad {
		if key, ok := strings.CutPrefix(field, path+"."); ok && !strings.ContainsAny(key, ".[") && !slices.Contains(known, key) {
			return true
		}
	}
	return false
}

func (k *checker) methods(path string, methods []string) {
	for i, m := range methods {
		at := fmt.Sprintf("%s[%d]", path, i)
		k.wrongIf(wantMethod(m), at, m)
		if slices.Contains(methods[:i], m) {
			k.wrong(at, shown(m)+" is given twice", "remove it")
		}
	}
}

// effect asks what the rule is for.
func (k *checker) effect(path string, r *Rule) {
	if r.Exempt && len(r.Limits) > 0 {
		k.doubt(path+".exempt", "the rule's limits are not counted", "remove limits, or exempt")
	}
	purpose := r.Exempt || r.RequireKey || r.WAF != nil || r.MaxBody > 0
	for _, key := range []string{"limits", "body", "waf", "max_body", "exempt", "scopes"} {
		purpose = purpose || k.Given(path+"."+key)
	}
	if !purpose {
		k.wrong(path, "has no limits", "give limits, or exempt: true; limits: [] only watches")
	}
}

func (k *checker) action(path string, r *Rule) {
	k.want(path+".tag_header", r.TagHeader, wantToken(r.TagHeader))
	if r.TagHeader != "" && r.Action != "tag" {
		k.doubt(path+".tag_header", "no request is tagged", "add action: tag")
	}
	if !k.Given(path + ".tarpit") {
		return
	}
	if r.Action != "tarpit" {
		k.doubt(path+".tarpit", "nobody is held", "add action: tarpit")
	}
	k.span(path+".tarpit.delay", r.Tarpit.Delay, Duration(time.Millisecond), Duration(5*time.Minute))
	k.between(path+".tarpit.max_held", r.Tarpit.MaxHeld, 1, 100_000)
	if n := r.Tarpit.MaxHeldPerClient; (n < 1 || n > r.Tarpit.MaxHeld) && !k.broken(path+".tarpit.max_held") {
		k.wrong(path+".tarpit.max_held_per_client", fmt.Sprint(n), fmt.Sprintf("want 1 to max_held, %d", r.Tarpit.MaxHeld))
	}
}

func (k *checker) count(path string, r *Rule) {
	for i, status := range r.Count.OnlyStatuses {
		k.between(fmt.Sprintf("%s.count.only_statuses[%d]", path, i), status, 100, 599)
	}
	k.methods(path+".count.skip_methods", r.Count.SkipMethods)
	if len(r.Count.OnlyStatuses) == 0 {
		return
	}
	for i, l := range r.Limits {
		if l.InFlight != nil {
			k.wrong(fmt.Sprintf("%s.limits[%d].in_flight", path, i), "cannot be counted by the answer, as count.only_statuses asks", "move it to a rule without only_statuses, or to the top-level limits")
		}
	}
}

// cost judges a cost that no waiting would let pass.
func (k *checker) cost(path string, r *Rule) {
	if r.Cost == nil || r.Exempt {
		return
	}
	for i := range r.Limits {
		k.affords(path, r, fmt.Sprintf("limits[%d]", i), &r.Limits[i])
	}
	for i := range k.Limits {
		k.affords(path, r, fmt.Sprintf("limits[%d]", i), &k.Limits[i])
	}
	for _, name := range slices.Sorted(maps.Keys(k.Plans)) {
		for i, l := range k.Plans[name].Limits {
			if l.Rule == "" || l.Rule == r.Name {
				k.affords(path, r, fmt.Sprintf("plans.%s.limits[%d]", name, i), &l.Limit)
			}
		}
		for i, q := range k.Plans[name].Quota {
			k.affords(path, r, fmt.Sprintf("plans.%s.quota[%d]", name, i), &Limit{Quota: &q})
		}
	}
}

// affords judges the cost of the rule at path against a limit, called where.
func (k *checker) affords(path string, r *Rule, where string, l *Limit) {
	if most, ok := capacity(l); ok && most > 0 && *r.Cost > most {
		k.wrong(path+".cost", fmt.Sprintf("%d is over what %s ever lets pass, %d", *r.Cost, where, most), fmt.Sprintf("want at most %d", most))
	}
}

// capacity is the most that l lets pass at one moment, if it could be read.
func capacity(l *Limit) (int64, bool) {
	switch {
	case l.Algorithm == "token_bucket" && l.Burst != nil:
		return *l.Burst, true
	case l.Rate != nil:
		return l.Rate.N, true
	case l.Quota != nil:
		return l.Quota.N, true
	case l.InFlight != nil:
		return *l.InFlight, true
	}
	return 0, false
}
