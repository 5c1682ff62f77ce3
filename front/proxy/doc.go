// Package proxy is the reverse-proxy front: it listens, keeps out what has two readings, lets the
// middleware decide, and hands admitted requests to an upstream as they were sent.
//
//	socket ─▶ PROXY protocol ─▶ TLS ─▶ guard ─▶ net/http ─▶ middleware ─▶ rewrite ─▶ upstream
//
// The upstream gets the path and query byte for byte, the Host as sent, and one word about who asks:
// ours.
package proxy
