// Package clientip finds out who is asking.
package clientip

import "github.com/weirgate/weir"

// A Resolver finds the client of a request by one configured strategy. It is never changed, and safe
// for concurrent use.
type Resolver struct{}

// Resolve fills c from req. It allocates nothing unless req.Trace is set.
func (r *Resolver) Resolve(req *weir.Request, c *weir.Client) {}
