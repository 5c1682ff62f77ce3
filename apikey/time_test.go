package apikey

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/timed"
)

// indistinct is what nobody can tell apart from outside the process: a network's noise is some hundred times that.
const indistinct = 100 * time.Nanosecond

// An unknown, a revoked, an expired and a wrong key are answered in times that 10,000 samples of each do not tell
// apart: the medians differ by less than the answers of one kind do among themselves, or by next to nothing.
func TestAnswersTakeOneTime(t *testing.T) {
	timed.Only(t)
	h := build(t, Options{})
	_, unknown := newSecret()
	k, revoked := h.create(Spec{Name: "a"})
	if _, err := h.Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	_, expired := h.create(Spec{Name: "b", Expires: noon.Add(time.Second)})
	_, good := h.create(Spec{Name: "c"})
	kinds := map[string]string{"unknown": unknown, "revoked": revoked, "expired": expired, "wrong secret": good[:20] + unknown[20:], "mistyped": good[:40] + "~" + good[41:]}
	h.now = noon.Add(time.Minute)
	took := measure(h, kinds, 10_000)
	for name, all := range took {
		low, median, high := all[len(all)/4], all[len(all)/2], all[len(all)*3/4]
		t.Logf("%-12s median %3d ns, quartiles %d to %d", name, median, low, high)
		of := took["unknown"]
		if noise := max(of[len(of)*3/4]-of[len(of)/4], indistinct); math.Abs(float64(median-of[len(of)/2])) > float64(noise) {
			t.Errorf("%s takes %d ns, unknown %d, and the noise is %d", name, median, of[len(of)/2], noise)
		}
	}
}

// measure returns the sorted times, in nanoseconds, of n answers of each kind, in turns by chance.
func measure(h *house, kinds map[string]string, n int) map[string][]time.Duration {
	took := map[string][]time.Duration{}
	var order []string
	for name := range kinds {
		for range n {
			order = append(order, name)
		}
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	v := h.Verifier(usual())
	line := []string{""}
	d := weir.Decision{At: h.now, Request: weir.Request{Header: http.Header{"X-Api-Key": line}}}
	for _, name := range order {
		line[0], d.Client = kinds[name], weir.Client{}
		begun := time.Now()
		v.Verify(context.Background(), &d)
		took[name] = append(took[name], time.Since(begun))
	}
	for _, all := range took {
		slices.Sort(all)
	}
	return took
}
