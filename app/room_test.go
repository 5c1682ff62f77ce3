package app

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
)

// All that may be open at once fits into the descriptors, whatever listens, and everything has room.
func TestShare(t *testing.T) {
	alone, all := config.Default(), config.Default()
	all.ForwardAuth.Listen, all.RLS.Listen, all.ExtAuthz.Listen = ":1", ":2", ":3"
	tests := []struct {
		descriptors uint64
		config      *config.Config
		want        room
	}{
		{1, alone, room{1, 1, 1, 1}},
		{64, alone, room{24, 24, 24, 8}},
		{1024, alone, room{384, 384, 384, 128}},
		{1024, all, room{154, 154, 153, 128}},
		{20_000, alone, room{9500, 9500, 4096, 256}},
		{65_536, all, room{26_124, 26_124, 4096, 256}},
		{math.MaxUint64, alone, room{1 << 20, 1 << 20, 4096, 256}},
	}
	for _, x := range tests {
		if got := share(x.descriptors, x.config); got != x.want {
			t.Errorf("%d descriptors: %s", x.descriptors, cmp.Diff(x.want, got, cmp.AllowUnexported(room{})))
		}
	}
}
