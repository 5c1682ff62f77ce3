package crs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/waftest"
)

// kilobyte is 1 KB of JSON with fifteen texts, of which no two are alike.
func kilobyte(seed int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":%d,"items":[`, seed)
	for i := range 7 {
		fmt.Fprintf(&b, `%s{"name":"Chair no. %d, oak and steel","note":"Please leave parcel %d.%d at the door; don't ring after 8 pm (the baby sleeps)."}`,
			strings.Repeat(",", min(i, 1)), seed*10+i, seed, i)
	}
	b.WriteString(`],"remark":"Ordered by phone, see the mail of Monday"}`)
	return b.String()
}

func hundredKilobytes() string {
	var b strings.Builder
	for i := range 93 {
		b.WriteString(kilobyte(i) + ",")
	}
	return "[" + b.String() + "1]"
}

// benches are what is asked; the bench module asks the stock rule set the same.
func benches() []struct {
	name string
	in   waf.Input
} {
	body := func(text string) waf.Input {
		return waf.Input{Method: "POST", Path: "/v1/orders", Header: browser("Content-Type", "application/json", "Content-Length", fmt.Sprint(len(text))), Body: []byte(text)}
	}
	list := []struct {
		name string
		in   waf.Input
	}{
		{"safe-get", waf.Input{Method: "GET", Path: "/v1/items/42", Query: "page=2&sort=name", Header: browser()}},
		{"get", waf.Input{Method: "GET", Path: "/v1/search", Query: "q=l%27avion+d%27hier&lang=fr", Header: browser("Referer", "https://app.example.test/?tab=2", "Cookie", "theme=dark")}},
		{"json-1k", body(kilobyte(1))},
		{"json-100k", body(hundredKilobytes())},
		{"json-100k-10-texts", body(`["` + strings.Repeat(strings.Repeat("The invoice was paid on time; and the parcel's in good shape. ", 160)+`","`, 10) + `"]`)},
	}
	for i := range list {
		list[i].in.Mode, list[i].in.Host, list[i].in.Proto = weir.Enforce, "api.example.test", "HTTP/1.1"
	}
	return list
}

func BenchmarkInspect(b *testing.B) {
	w := load(b, Options{})
	for _, bench := range benches() {
		b.Run(bench.name, func(b *testing.B) {
			var r weir.Inspection
			measure(b, func() { w.Inspect(b.Context(), &bench.in, &r) })
			if r.Verdict != weir.Clean && r.Verdict != weir.Plain {
				b.Fatalf("%+v", r)
			}
		})
	}
}

// measure also reports computing time, which a busy machine does not lengthen.
func measure(b *testing.B, ask func()) {
	ask()
	b.ReportAllocs()
	before, n := waftest.CPU(b), 0
	for b.Loop() {
		ask()
		n++
	}
	b.ReportMetric(float64((waftest.CPU(b)-before).Microseconds())/float64(n), "cpu-µs/op")
}

// The parallel ones say what two workers do.
func BenchmarkInspectParallel(b *testing.B) {
	w := load(b, Options{})
	in := benches()[2].in
	b.RunParallel(func(pb *testing.PB) {
		var r weir.Inspection
		for pb.Next() {
			w.Inspect(b.Context(), &in, &r)
		}
	})
}

// Loading is off the road of requests.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		rules, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := rules.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(waftest.Resident(b)), "MB")
}
