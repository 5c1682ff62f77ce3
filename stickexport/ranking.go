// Package stickexport reads the top entries of an HAProxy stick table from the runtime socket, and
// serves them as metrics. However large the table is, no more than the top is kept, and HAProxy is asked
// for no more than it takes to find it.
package stickexport

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// A Ranking is the top of a table at one moment.
type Ranking struct {
	Table   string  `json:"table"`
	Type    string  `json:"type"`
	Size    int64   `json:"size"` // entries that the table can hold
	Used    int64   `json:"used"` // entries that it holds
	By      string  `json:"by"`   // the datum that it is ranked by; empty if the table is empty
	Entries []Entry `json:"entries"`
}

// An Entry is one key of the table.
type Entry struct {
	Rank    int     `json:"rank"` // from 1
	Key     string  `json:"key"`
	Value   int64   `json:"value"`   // of the datum that it is ranked by
	Expires Seconds `json:"expires"` // from now; 0 where the table does not say
	Data    []Datum `json:"data"`
}

// A Datum is one of the values that the table stores for each key.
type Datum struct {
	Name   string  `json:"name"`
	Period Seconds `json:"period"` // of a rate; 0: it is none
	Value  int64   `json:"value"`
}

// Seconds is a duration that is written as a number of seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// A top keeps the entries with the largest values, of equal ones those with the smaller keys.
type top struct {
	by      string
	most    int
	entries []Entry // the largest first
	rows    int     // that were looked at
	missing int     // of those, how many did not have the datum
}

// add keeps r if it belongs to the top of what is above a value.
func (t *top) add(r *row, above int64) {
	t.rows++
	value, ok := r.find(t.by)
	full := len(t.entries) == t.most
	switch {
	case !ok:
		t.missing++
		return
	case value <= above, full && value < t.entries[t.most-1].Value:
		return
	}
	e := Entry{Key: string(r.key), Value: value}
	at, _ := slices.BinarySearchFunc(t.entries, e, rank)
	if at == t.most {
		return
	}
	kept := r.keep()
	kept.Value = value
	if full {
		t.entries = t.entries[:t.most-1]
	}
	t.entries = slices.Insert(t.entries, at, kept)
}

func rank(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Key, b.Key))
}

// numbered returns the entries with their ranks.
func (t *top) numbered() []Entry {
	for i := range t.entries {
		t.entries[i].Rank = i + 1
	}
	return t.entries
}
