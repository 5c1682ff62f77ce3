package apikey

import (
	"context"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/credential"
)

// Settings are what a configuration says of keys.
type Settings struct {
	Header string          // canonical name of the header field that bears a key; empty: none
	Bearer bool            // whether Authorization: Bearer may bear a key
	Query  string          // name of the query parameter that may bear a key; empty: none
	Plans  map[string]bool // that there are: a key of another one is refused
	Grace  time.Duration   // how long what was known is good without the database
}

// A Verifier finds the API key that a request bears, and says whose it is. It asks no database and allocates
// nothing. It is never changed.
type Verifier struct {
	keys     *Keys
	settings Settings
	places   credential.Places
}

// Verifier returns a verifier by s.
func (k *Keys) Verifier(s Settings) *Verifier {
	return &Verifier{keys: k, settings: s, places: s.places()}
}

func (s *Settings) places() credential.Places {
	return credential.Places{Header: s.Header, Bearer: s.Bearer, Query: s.Query}
}

// Verify fills in what became of the key that d.Request bears. It is counted, and its use noted.
func (v *Verifier) Verify(_ context.Context, d *weir.Decision) {
	e := v.look(d)
	if c := d.Client.Credential; c != weir.NoCredential {
		v.keys.checks[c].Add(1)
	}
	if e != nil {
		v.keys.note(e, d.At)
	}
}

// Peek fills in what Verify would, and leaves no trace.
func (v *Verifier) Peek(_ context.Context, d *weir.Decision) { v.look(d) }

// look fills in what became of the key that d.Request bears, and returns its entry if it is good.
func (v *Verifier) look(d *weir.Decision) *entry {
	secret, n := v.places.Find(&d.Request)
	switch {
	case n == 0:
		return nil
	case n > 1:
		d.Client.Credential = weir.Ambiguous
		return nil
	}
	e, c := v.judge(secret, d.At)
	if d.Client.Credential = c; c != weir.Verified {
		return nil
	}
	d.Client.APIKey, d.Client.Plan, d.Client.Scopes = e.id, e.plan, e.scopes
	return e
}

// judge says what a secret is at a moment, and returns its entry if there is one.
func (v *Verifier) judge(secret string, at time.Time) (*entry, weir.Credential) {
	k := v.keys
	m := k.mirror.Load()
	if len(secret) != length {
		return nil, weir.Refuted
	}
	if m == nil {
		return nil, weir.Unverifiable
	}
	e := m.find(secret)
	switch {
	case e == nil:
		return nil, k.unknown(secret, at)
	case !k.current(at, v.settings.Grace):
		return e, weir.Unverifiable
	case at.UnixNano() >= e.until:
		return e, weir.Refuted
	case !e.planned(v.settings.Plans):
		k.stray(e, at)
		return e, weir.Refuted
	}
	return e, weir.Verified
}

// unknown says what a secret is that is not among those that are known: there may be others while the database
// does not answer.
func (k *Keys) unknown(secret string, at time.Time) weir.Credential {
	if (k.failed.Load() || !k.current(at, trust)) && isWellFormed(secret) {
		return weir.Unverifiable
	}
	return weir.Refuted
}

// current reports whether what is known at a moment is no older than age.
func (k *Keys) current(at time.Time, age time.Duration) bool {
	return k.o.Poll == 0 || at.UnixNano()-k.synced.Load() <= int64(age)
}

// stray tells, once a minute, of a key whose plan the configuration lacks.
func (k *Keys) stray(e *entry, at time.Time) {
	next := k.strays.Load()
	if at.Unix() < next || !k.strays.CompareAndSwap(next, at.Unix()+minute) {
		return
	}
	k.o.Log.Warn("an API key is refused, for its plan is not in plans", "id", e.id, "plan", e.plan)
}

// Unlooked is for a question that is answered without the database: whoever bears a key is not verified.
type Unlooked struct{ Settings }

// Verify fills in what became of the key that d.Request bears.
func (u Unlooked) Verify(_ context.Context, d *weir.Decision) {
	places := u.places()
	switch secret, n := places.Find(&d.Request); {
	case n > 1:
		d.Client.Credential = weir.Ambiguous
	case n == 1 && isWellFormed(secret):
		d.Client.Credential = weir.Unverifiable
	case n == 1:
		d.Client.Credential = weir.Refuted
	}
}
