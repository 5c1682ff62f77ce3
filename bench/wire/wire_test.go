package wire

import (
	"slices"
	"testing"

	"github.com/weirgate/weir/bench/report"
)

// A peer is set beside what of Weir's does the same; Weir's own rows and what limits nothing at all are no peers.
func TestBeside(t *testing.T) {
	at := func(name string, us, resident float64) cost {
		return cost{name: name, us: []float64{us}, resident: resident}
	}
	got := beside([]cost{
		at(weirPass, 100, 50), at(weirBarePass, 90, 50), at(plainPass, 80, 10), at(weirRefuse, 40, 50), at(emptyAnswer, 20, 10), at(fixedAnswer, 30, 10),
		at(nginxPass, 25, 5), at(nginxRefuse, 10, 5),
	})
	want := []report.Peer{
		{Name: plainPass, What: "processor time", Cost: 0.8}, {Name: plainPass, What: "memory", Cost: 0.2},
		{Name: nginxPass, What: "processor time", Cost: 0.25}, {Name: nginxPass, What: "memory", Cost: 0.1},
		{Name: nginxRefuse, What: "processor time", Cost: 0.25}, {Name: nginxRefuse, What: "memory", Cost: 0.1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
