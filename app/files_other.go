//go:build !unix

package app

import "math"

// openFiles returns how many files and connections the system lets the process have open: memory alone bounds
// them.
func openFiles() uint64 { return math.MaxUint64 }
