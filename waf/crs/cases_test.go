package crs

import (
	"net/http"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/mask"
	"github.com/weirgate/weir/waf/waftest"
)

// limits are the defaults of the contract.
var limits = feed.Limits{Depth: 64, Values: 2000, Bytes: 128 << 10, Inflated: 1 << 20}

func load(t testing.TB, o Options) *waf.WAF {
	t.Helper()
	rules, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := waf.New(waf.Options{Rules: rules, Limits: limits, Mask: masker(t), Slots: waf.NewSlots(2, time.Minute, waf.RejectSaturated)})
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// TestAcceptance holds what was promised of the acceptance cases: all that must be, and of those that
// should be 88 % of the blocks and 90 % of the passes.
func TestAcceptance(t *testing.T) {
	racing.Skip(t)
	scores, wrong := waftest.Run(t, load(t, Options{}), waftest.Load(t, "../testdata/cases.json"))
	t.Log(scores)
	for _, line := range wrong {
		t.Log(line)
	}
	for key, percent := range map[string]int{"block must": 100, "allow must": 100, "block should": 88, "allow should": 90} {
		if s := scores[key]; s.Right*100 < s.All*percent {
			t.Errorf("%s: %v, want %d %%", key, s, percent)
		}
	}
}

// Of prose in many languages at most 1.0 % is blocked.
func TestProse(t *testing.T) {
	racing.Skip(t)
	waftest.Prose(t, load(t, Options{}), 10)
}

func masker(t testing.TB) *mask.Masker {
	t.Helper()
	m, err := mask.New(mask.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Whatever was planted, nothing of it is told.
func TestSecrets(t *testing.T) {
	racing.Skip(t)
	waftest.Secrets(t, load(t, Options{}))
}

// browser are the fields that a browser sends.
func browser(more ...string) http.Header {
	h := http.Header{"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}, "Accept": {"application/json, text/plain, */*"},
		"Accept-Language": {"en-US,en;q=0.5"}, "Accept-Encoding": {"gzip, deflate, br"}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}
