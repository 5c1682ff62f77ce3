// Package weir holds the words that every other package speaks.
//
//	wire ─▶ Request ─▶ Client ─▶ Rule ─▶ []Hit ─▶ Store.Take ─▶ []Status ─▶ Decision ─▶ wire
//	        front      clientip  policy           (only I/O)               policy       front
//
// A front turns what it received into a [Request]. The client's identity is resolved into a
// [Client], exactly one [Rule] is matched, and each of its limits becomes a [Hit]: one counter to be
// charged. A [Store] charges all hits or none and answers with one [Status] each. The [Decision] is
// the whole answer; the front writes it in its protocol's form.
//
// Every arrow is a function that returns a value; the store is the only I/O, and nothing calls
// backwards. Shadow limits, explain, replay and tests are the same road with another value put in:
// a [Mode], a peeking store, the log's clock, a fake clock.
//
// This package imports the standard library only and keeps no state.
package weir
