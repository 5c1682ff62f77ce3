package app

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
)

// All that may be open at once fits into the descriptors, whatever listens, and everything has room.
func TestShare(t *testing.T) {
	alone, agent, all := config.Default(), config.Default(), config.Default()
	agent.SPOE.Listen = ":1"
	all.ForwardAuth.Listen, all.RLS.Listen, all.ExtAuthz.Listen, all.SPOE.Listen = ":1", ":2", ":3", ":4"
	dropIn := config.Default()
	dropIn.RLS.Listen = ":1"
	tests := []struct {
		descriptors uint64
		loaded      Loaded
		want        room
	}{
		{1, Loaded{Config: alone}, room{1, 1, 1, 1}},
		{64, Loaded{Config: alone}, room{24, 24, 24, 8}},
		{1024, Loaded{Config: alone}, room{384, 384, 384, 128}},
		{1024, Loaded{Config: agent}, room{256, 256, 256, 128}},
		{1024, Loaded{Config: all}, room{128, 128, 128, 128}},
		{1024, Loaded{Config: dropIn}, room{256, 256, 256, 128}},
		{1024, Loaded{Config: dropIn, DropIn: true}, room{154, 154, 153, 128}}, // over gRPC and HTTP, and its metrics
		{1024, Loaded{Config: alone, DropIn: true}, room{384, 384, 384, 128}},
		{20_000, Loaded{Config: alone}, room{9500, 9500, 4096, 256}},
		{65_536, Loaded{Config: all}, room{24_076, 24_076, 4096, 256}},
		{math.MaxUint64, Loaded{Config: alone}, room{1 << 20, 1 << 20, 4096, 256}},
	}
	for _, x := range tests {
		if got := share(x.descriptors, &x.loaded); got != x.want {
			t.Errorf("%d descriptors: %s", x.descriptors, cmp.Diff(x.want, got, cmp.AllowUnexported(room{})))
		}
	}
}
