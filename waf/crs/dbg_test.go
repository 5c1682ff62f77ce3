package crs

import (
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/waftest"
	"testing"
)

func BenchmarkWide(b *testing.B) {
	w := load(b, Options{})
	var in *waf.Input
	for _, a := range waftest.Attacks(b) {
		if a.Name == "a wide object" {
			x := a.In
			in = &x
		}
	}
	var r waf.Result
	for b.Loop() {
		w.Inspect(b.Context(), in, &r)
	}
}
