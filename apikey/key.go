// Package apikey keeps API keys and tells whose one a request bears.
//
// The database holds a keyed hash of each key, never the key. Every process has a copy of the hashes in memory,
// kept in step by a count of changes, so that a request asks no database and a guess costs none anything.
package apikey

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Key is what is known of an API key. The key itself is shown once and kept by nobody.
type Key struct {
	ID       string
	Name     string
	Owner    string // whose it is, in the operator's words
	Plan     string // empty: none
	Scopes   []string
	Created  time.Time
	Expires  time.Time // zero: never
	Revoked  time.Time // zero: it is not
	LastUsed time.Time // zero: never; at most a minute late
	OldUntil time.Time // until when the key that the last rotation displaced is good; zero: there is none
}

// Live reports whether k is good at now.
func (k *Key) Live(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// A Spec is what a key is created with.
type Spec struct {
	Name, Owner, Plan string
	Scopes            []string
	Expires           time.Time // zero: never
}

var (
	// ErrNotFound: there is no key with that id.
	ErrNotFound = errors.New("there is no such key")
	// ErrInvalid: what a key was to be is nothing that a key can be.
	ErrInvalid = errors.New("invalid key")
	// ErrNotLive: the key is revoked or expired.
	ErrNotLive = errors.New("the key is revoked or expired")
	// ErrTooMany: there are as many keys as a process holds.
	ErrTooMany = fmt.Errorf("there are %d keys, and no process holds more", MostKeys)
)

const (
	// MostKeys is how many keys a process holds, of some 300 bytes each.
	MostKeys = 1_000_000
	// lastYear is the last one that RFC 3339, and so JSON, can write.
	lastYear = 9999
	// MostOverlap is how long a displaced key may stay good.
	MostOverlap = 90 * 24 * time.Hour

	mostText   = 128 // bytes of a name or label
	mostScopes = 32
	mostScope  = 64 // bytes
)

// check returns what is wrong with s at now.
func (s *Spec) check(now time.Time) error {
	for _, text := range []struct{ what, is string }{{"name", s.Name}, {"owner", s.Owner}, {"plan", s.Plan}} {
		if !isLabel(text.is) {
			return fmt.Errorf("%w: %s: want at most %d bytes that can be printed", ErrInvalid, text.what, mostText)
		}
	}
	switch {
	case s.Name == "":
		return fmt.Errorf("%w: name: want one", ErrInvalid)
	case !s.Expires.IsZero() && !s.Expires.After(now):
		return fmt.Errorf("%w: expires: %s is over", ErrInvalid, s.Expires.UTC().Format(time.RFC3339))
	case s.Expires.UTC().Year() > lastYear:
		return fmt.Errorf("%w: expires: want a time before the year %d", ErrInvalid, lastYear+1)
	case len(s.Scopes) > mostScopes:
		return fmt.Errorf("%w: scopes: want at most %d", ErrInvalid, mostScopes)
	}
	for _, scope := range s.Scopes {
		if !isScope(scope) {
			return fmt.Errorf("%w: scope %q: want at most %d printable bytes without spaces, quotes and backslashes", ErrInvalid, scope, mostScope)
		}
	}
	return nil
}

func isLabel(text string) bool {
	return len(text) <= mostText && utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// isScope reports whether text is a scope-token of RFC 6749 section 3.3.
func isScope(text string) bool {
	return text != "" && len(text) <= mostScope && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}
