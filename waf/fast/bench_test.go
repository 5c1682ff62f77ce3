package fast

import (
	"fmt"

	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
)

// kilobyte is 1 KB of JSON with fifteen strings.
func kilobyte() string {
	var b strings.Builder
	b.WriteString(`{"id":7,"items":[`)
	for i := range 7 {
		fmt.Fprintf(&b, `%s{"name":"Chair no. %d, oak & steel","note":"Please leave it at the door; don't ring after 8 pm (the baby sleeps)."}`, strings.Repeat(",", min(i, 1)), i)
	}
	b.WriteString(`],"remark":"Ordered by phone, see the mail of Monday"}`)
	return b.String()
}

func BenchmarkFast(b *testing.B) {
	w := build(b)
	for _, bench := range []struct {
		name string
		in   waf.Input
	}{
		{"get", waf.Input{Method: "GET", Path: "/v1/items/42", Query: "page=2&sort=name", Header: browser()}},
		{"get-odd", waf.Input{Method: "GET", Path: "/v1/search", Query: "q=l%27avion+d%27hier&lang=fr", Header: browser()}},
		{"json-1k", waf.Input{Method: "POST", Path: "/v1/orders", Header: browser("Content-Type", "application/json"), Body: []byte(kilobyte())}},
		{"json-100k", waf.Input{Method: "POST", Path: "/v1/orders", Header: browser("Content-Type", "application/json"), Body: []byte("[" + strings.Repeat(kilobyte()+",", 95) + "1]")}},
		{"text-1m", waf.Input{Method: "POST", Path: "/v1/notes", Header: browser("Content-Type", "application/json"), Body: []byte(`{"text":"` + strings.Repeat("The invoice was paid on time; and the parcel's in good shape. ", 16500) + `"}`)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			bench.in.Mode, bench.in.Host, bench.in.Proto = weir.Enforce, "api.example.test", "HTTP/1.1"
			b.ReportAllocs()
			var r weir.Inspection
			for b.Loop() {
				w.Inspect(b.Context(), &bench.in, &r)
			}
			if r.Verdict != weir.Clean {
				b.Fatalf("%+v", r)
			}
		})
	}
}
