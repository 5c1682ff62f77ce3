// Package respond writes decisions as HTTP: refusals, rate limit header fields and problem documents.
package respond

// A Responder writes answers in the configured form. It is never changed, and safe for concurrent use.
type Responder struct{}
