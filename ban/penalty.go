package ban

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// Author is that of a ban which a penalty made.
const Author = "penalty"

// A penalty is one of the configuration's.
type penalty struct {
	name     string
	of       string
	statuses []int
	per      string
	terms    []time.Duration
	label    string      // of its counters' keys
	count    *weir.Limit // of offences
	level    *weir.Limit // of bans: what is left of it says for how long the next one is
}

// penalties are compiled from the configuration's, which Parse returned.
func penalties(from []config.Penalty) []penalty {
	list := make([]penalty, len(from))
	for i := range from {
		f := &from[i]
		p := penalty{name: f.Name(), of: f.After.Of, statuses: f.Statuses, per: f.Who()}
		for _, d := range f.Ban {
			p.terms = append(p.terms, time.Duration(d))
		}
		p.label = ":penalty:" + url.QueryEscape(p.name) + ":"
		p.count = &weir.Limit{
			Name: p.name, Rate: f.After.String(), Max: f.After.N, Window: f.After.Window, Algorithm: weir.SlidingWindow,
		}
		longest := p.terms[len(p.terms)-1]
		p.level = &weir.Limit{
			Name: p.name + ", bans", Rate: "1/" + config.Duration(longest).String(), Max: 1, Burst: int64(len(p.terms)), Window: longest, Algorithm: weir.TokenBucket,
		}
		list[i] = p
	}
	return list
}

// counts reports whether a decision and what became of it are an offence. A refusal by a ban never is.
func (p *penalty) counts(d *weir.Decision, o *weir.Outcome) bool {
	switch p.of {
	case "denials":
		return d.Refused() && (d.Reason == weir.OverLimit || d.Reason == weir.TooManyHeld)
	case "blocks":
		return d.Inspection.Verdict == weir.Blocked
	}
	return !d.Refused() && o.Err == nil && slices.Contains(p.statuses, o.HTTP)
}

// hit is one of s on a limit of the penalty.
func (p *penalty) hit(s Subject, l *weir.Limit) []weir.Hit {
	key := []byte("{" + s.String() + "}")
	if s.Key != "" {
		key = []byte("{=" + url.QueryEscape(s.Key) + "}")
	}
	tag := len(key)
	key = append(key, p.label+l.Algorithm.String()+":"+l.Window.String()...)
	return []weir.Hit{{Limit: l, Key: key, TagLen: tag, N: 1}}
}

// An offence is one of a client's, to be judged.
type offence struct {
	by      *Penalties
	penalty *penalty
	subject Subject
	at      time.Time
}

// judge counts the offence, and bans whoever committed it if there were enough.
func (o *offence) judge(ctx context.Context) error {
	bans := o.by.box.bans
	if bans.Covering(o.subject) != nil {
		return nil
	}
	status := make([]weir.Status, 1)
	hits := o.penalty.hit(o.subject, o.penalty.count)
	if err := o.by.store.Take(ctx, o.at, hits, status); err != nil || !status[0].Allowed || status[0].Remaining > 0 {
		return err
	}
	ban, err := o.sentence(ctx)
	if err != nil || ban == nil {
		return err
	}
	o.by.box.banned(o, ban)
	if r, ok := o.by.store.(weir.Resetter); ok {
		_ = r.Reset(ctx, hits) // what is left of the count makes the next ban come sooner
	}
	return nil
}

// sentence bans the subject unless it is banned by now, and returns the ban or nil.
func (o *offence) sentence(ctx context.Context) (*weir.Ban, error) {
	bans := o.by.box.bans
	bans.writing.Lock()
	defer bans.writing.Unlock()
	if err := bans.sync(ctx); err != nil {
		return nil, fmt.Errorf("nobody is banned: %w", err)
	}
	if bans.Covering(o.subject) != nil {
		return nil, nil // another replica was faster
	}
	term, err := o.term(ctx)
	if err != nil {
		return nil, err
	}
	ban := weir.Ban{Until: bans.o.Now().Add(term), Reason: o.penalty.name, Author: Author}
	if err := bans.put(ctx, o.subject, ban); err != nil {
		return nil, err
	}
	return bans.get(o.subject), nil
}

// term is for how long the subject is to be banned: as the first time, or longer for each ban that is not
// forgiven.
func (o *offence) term(ctx context.Context) (time.Duration, error) {
	terms := o.penalty.terms
	last := len(terms) - 1
	if last == 0 {
		return terms[0], nil
	}
	status := make([]weir.Status, 1)
	if err := o.by.store.Take(ctx, o.at, o.penalty.hit(o.subject, o.penalty.level), status); err != nil {
		return 0, fmt.Errorf("how often %s was banned: %w", o.subject, err)
	}
	if !status[0].Allowed {
		return terms[last], nil
	}
	return terms[max(0, last-int(status[0].Remaining))], nil
}
