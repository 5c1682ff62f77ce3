package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Offences are how many of what in how long make a penalty: 20 denials in 1m.
type Offences struct {
	N      int64
	Of     string // denials, blocks or statuses
	Window time.Duration
}

// Terms are for how long offenders are banned, the first time and each time after: 10m, 1h, 24h.
type Terms []Duration

const (
	mostOffences  = 1_000_000
	longestOffend = 30 * day // in which offences are counted
	mostTerms     = 10
	mostPenalties = 100
)

// offences are what may offend, each with the form of a single one.
var offences = [...][2]string{{"denials", "denial"}, {"blocks", "block"}, {"statuses", "status"}}

// ParseOffences reads N denials in DURATION, N blocks in DURATION, or N statuses in DURATION. N is 1 to
// 1,000,000, the duration 1s to 30d.
func ParseOffences(text string) (Offences, error) {
	words := strings.Split(text, " ")
	if len(words) != 4 || words[2] != "in" {
		return Offences{}, misspelt(text, "want how many of what in how long, as in 20 denials in 1m")
	}
	n, want := parseCount(words[0], mostOffences)
	i := slices.IndexFunc(offences[:], func(o [2]string) bool { return o[0] == words[1] || o[1] == words[1] && n == 1 })
	window, wantWindow := parseDuration(words[3])
	switch {
	case want == "" && n == 0:
		want = "want at least 1"
	case want != "":
	case i < 0:
		want = fmt.Sprintf("want denials, blocks or statuses, as in %d denials in 1m", n)
	case wantWindow != "":
		want = wantWindow
	case window < time.Second || window > longestOffend:
		want = "want a time of 1s to 30d"
	}
	if want != "" {
		return Offences{}, misspelt(text, want)
	}
	return Offences{n, offences[i][0], window}, nil
}

// String returns the offences as ParseOffences reads them.
func (o Offences) String() string {
	of := o.Of
	if o.N == 1 {
		of = strings.TrimSuffix(strings.TrimSuffix(of, "s"), "e")
	}
	return fmt.Sprintf("%d %s in %s", o.N, of, Duration(o.Window))
}

// MarshalText returns the offences as written in the file.
func (o Offences) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads offences as written in the file.
func (o *Offences) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOffences(string(text))
	return err
}

// ParseTerms reads one to ten durations of 1s to 366d, separated by commas, each longer than the one before.
func ParseTerms(text string) (Terms, error) {
	var terms Terms
	for word := range strings.SplitSeq(text, ",") {
		d, want := parseDuration(strings.TrimSpace(word))
		switch {
		case want != "":
		case d < time.Second:
			want = "want at least 1s"
		case len(terms) == mostTerms:
			want = fmt.Sprintf("want at most %d durations", mostTerms)
		case len(terms) > 0 && Duration(d) <= terms[len(terms)-1]:
			want = "want each ban longer than the one before, as in 10m, 1h, 24h"
		}
		if want != "" {
			return nil, misspelt(text, want)
		}
		terms = append(terms, Duration(d))
	}
	return terms, nil
}

// String returns the terms as ParseTerms reads them.
func (t Terms) String() string {
	words := make([]string, len(t))
	for i, d := range t {
		words[i] = d.String()
	}
	return strings.Join(words, ", ")
}

// MarshalText returns the terms as written in the file.
func (t Terms) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads terms as written in the file.
func (t *Terms) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTerms(string(text))
	return err
}

// penalties judges who is banned by himself.
func (k *checker) penalties() {
	if len(k.Penalties) > mostPenalties {
		k.wrong("penalties", fmt.Sprintf("%d of them", len(k.Penalties)), fmt.Sprintf("want at most %d", mostPenalties))
	}
	first := map[string]string{}
	for i := range k.Penalties {
		k.penalty(fmt.Sprintf("penalties[%d]", i), &k.Penalties[i], first)
	}
}

func (k *checker) penalty(at string, p *Penalty, first map[string]string) {
	if p.After == (Offences{}) && !k.broken(at+".after") {
		k.wrong(at+".after", "missing", "say how many of what in how long, as in after: 20 denials in 1m")
	}
	if len(p.Ban) == 0 && !k.broken(at+".ban") {
		k.wrong(at+".ban", "missing", "say for how long, as in ban: 10m")
	}
	byStatus := p.After.Of == "statuses"
	switch {
	case byStatus && len(p.Statuses) == 0 && !k.broken(at+".statuses"):
		k.wrong(at+".statuses", "missing", "say which HTTP statuses of the upstream offend, as in statuses: [401, 404]")
	case !byStatus && len(p.Statuses) > 0 && !k.broken(at+".after"):
		k.wrong(at+".statuses", p.After.String()+" does not count statuses", fmt.Sprintf("write after: %d statuses in %s, or remove it", p.After.N, Duration(p.After.Window)))
	}
	for j, status := range p.Statuses {
		k.between(fmt.Sprintf("%s.statuses[%d]", at, j), status, 100, 599)
	}
	if name := p.Name(); k.broken(at + ".after") {
	} else if other, taken := first[name]; taken {
		k.wrong(at, "it counts the same as "+other, "give one of them another after, per or statuses")
	} else {
		first[name] = at
	}
}

// Name is what the penalty is called where it is counted: what offends and who is banned.
func (p *Penalty) Name() string {
	name := p.After.String() + " per " + p.Who()
	for i, status := range p.Statuses {
		name += fmt.Sprintf("%c%d", " ,"[min(i, 1)], status)
	}
	return name
}

// Who is banned: ip, client or key.
func (p *Penalty) Who() string {
	if p.Per == "" {
		return "ip"
	}
	return p.Per
}
