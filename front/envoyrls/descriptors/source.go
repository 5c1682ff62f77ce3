package descriptors

import "fmt"

// A Domain is one domain as a source of configuration gives it: a file, or a resource of an xDS server.
type Domain struct {
	File        string // what problems call the source
	Name        string
	Descriptors []Descriptor

	At Position
}

// A Descriptor is one descriptor as it was given.
type Descriptor struct {
	Key, Value  string // Value is empty where any will do
	RateLimit   *RateLimit
	Descriptors []Descriptor // those that follow it

	ShadowMode     bool
	QuotaMode      bool
	DetailedMetric bool
	ValueToMetric  bool
	ShareThreshold bool
	Metadata       map[string]any // of strings, booleans, int64, float64, nil, []any and the same again

	At              Position
	keyAt, sharedAt Position
	broken          bool // it could not be read, which has been said
}

// A RateLimit is one rate_limit as it was given.
type RateLimit struct {
	Unit            string
	RequestsPerUnit uint32
	Unlimited       bool
	Name            string
	Replaces        []string

	// What Weir adds to the format; no source but a file has it.
	algorithm string
	burst     uint32

	At                   Position
	unitAt, requestsAt   Position // the zero one where it is not given
	algorithmAt, burstAt Position
	replacesAt           []Position
}

// A Position is a place in a file. The zero Position stands for none.
type Position struct{ Line, Col int } // both from 1

// or returns p, or q where p is none.
func (p Position) or(q Position) Position {
	if p.Line == 0 {
		return q
	}
	return p
}

// place returns file:line, or the file alone where there is no line.
func (p Position) place(file string) string {
	if p.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, p.Line)
}
