// Package journal remembers what was decided: metrics, a ring of recent decisions, the chain
// diagnosis and the log of refusals, all from Record alone.
package journal

import "github.com/weirgate/weir"

// A Journal is safe for concurrent use.
type Journal struct{}

// Record notes a decision and what became of it. It keeps nothing of d after it returned.
func (j *Journal) Record(d *weir.Decision, o weir.Outcome) {}
