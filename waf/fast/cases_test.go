package fast

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
var limits = feed.Limits{Depth: 64, Values: 2000, Bytes: 1 << 20, Inflated: 1 << 20}

func build(t testing.TB) *waf.WAF {
	t.Helper()
	m, err := mask.New(mask.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return waf.New(waf.Options{Rules: New(), Limits: limits, Mask: m, Slots: waf.NewSlots(2, time.Minute, waf.RejectSaturated)})
}

// TestAcceptance holds what was promised of the acceptance cases: everything passes that must, and of what
// must be blocked 85 %.
func TestAcceptance(t *testing.T) {
	scores, wrong := waftest.Run(t, build(t), waftest.Load(t, "../testdata/cases.json"))
	t.Log(scores)
	for _, line := range wrong {
		t.Log(line)
	}
	for key, percent := range map[string]int{"block must": 85, "allow must": 100, "allow should": 90} {
		if s := scores[key]; s.Right*100 < s.All*percent {
			t.Errorf("%s: %v, want %d %%", key, s, percent)
		}
	}
}

// Of prose in many languages at most 0.3 % is blocked.
func TestProse(t *testing.T) {
	racing.Skip(t)
	waftest.Prose(t, build(t), 3)
}

// Whatever was planted, nothing of it is told.
func TestSecrets(t *testing.T) { waftest.Secrets(t, build(t)) }

// browser are the fields that a browser sends.
func browser(more ...string) http.Header {
	h := http.Header{"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}, "Accept": {"application/json, text/plain, */*"},
		"Accept-Language": {"en-US,en;q=0.5"}, "Accept-Encoding": {"gzip, deflate, br"}, "Referer": {"https://app.example.test/items?page=2"},
		"Cookie": {"session=8f14e45fceea167a5a36dedd4bea2543; theme=dark"}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}
