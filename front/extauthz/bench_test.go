package extauthz

import "testing"

// BenchmarkCheck is what one question costs in the server, but for gRPC.
func BenchmarkCheck(b *testing.B) {
	for name, yaml := range map[string]string{
		"passed": `{client: {from_right: 1, peers: [loopback]}, default: {limits: [{rate: 1000000000/1h, per: client}]}}`,
		"denied": `{client: {from_right: 1, peers: [loopback]}, default: {limits: [{rate: 0/1h, per: client}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			h, ctx := build(b, yaml), by("127.0.0.1")
			q := question("203.0.113.7", "GET", "/search?q=1", "user-agent", "x", "accept", "*/*", "x-request-id", "1", chainName, "203.0.113.7")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Check(ctx, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
