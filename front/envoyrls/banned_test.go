package envoyrls

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// bannedAt returns bans of subjects until a minute after noon.
func bannedAt(tb testing.TB, subjects ...string) *ban.Bans {
	tb.Helper()
	bans := ban.New(ban.Options{Now: func() time.Time { return noon }})
	for _, text := range subjects {
		s, err := ban.ParseSubject(text)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := bans.Add(context.Background(), s, weir.Ban{Until: noon.Add(time.Minute)}); err != nil {
			tb.Fatal(err)
		}
	}
	return bans
}

// Fronts share bans: what Envoy names as the client's address, or its network, is kept out by one that holds for
// all of it. The words of an asker ban nobody, and Compat is what envoyproxy/ratelimit is.
func TestBannedAddresses(t *testing.T) {
	subjects := []string{"203.0.113.7", "198.51.100.0/24", "198.51.100.0/32", "2001:db8:1:2::/64", "192.0.2.0/24"}
	p := plan{yaml: ownLimits, options: Options{Counting: Own}, read: descriptors.Options{Extensions: true}, bans: bannedAt(t, subjects...),
		policy: "allow: [{cidr: 192.0.2.5, reason: monitoring}]\n"}
	own := build(t, p)
	p.options = Options{Counting: Own, Settings: Settings{Shadow: true}}
	shadow := build(t, p)
	p.options, p.read = Options{Counting: Compat, Store: NewMemory(MemoryOptions{MaxKeys: 1000})}, descriptors.Options{}
	p.yaml = "domain: d\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]\n"
	compat := build(t, p)
	for _, test := range []struct {
		key, value string
		banned     bool
	}{
		{"remote_address", "203.0.113.7", true},
		{"remote_address", "::ffff:203.0.113.7", true},
		{"remote_address", "203.0.113.8", false},
		{"remote_address", "198.51.100.200", true},
		{"remote_address", "2001:db8:1:2::9", true},
		{"remote_address", "2001:db8:1:3::9", false},
		{"remote_address", "192.0.2.5", false}, // allow lets it in
		{"remote_address", "192.0.2.6", true},
		{"remote_address", "nobody", false},
		{"remote_address", "", false},
		{"masked_remote_address", "198.51.100.0/24", true},
		{"masked_remote_address", "198.51.100.128/25", true},
		{"masked_remote_address", "203.0.113.0/24", false}, // one address of it is not all
		{"masked_remote_address", "2001:db8:1:2::/64", true},
		{"user", "203.0.113.7", false},
	} {
		req := request(descriptor("site", ""), descriptor(test.key, test.value))
		for name, h := range map[string]*house{"own": own, "shadow": shadow, "compat": compat} {
			want := pb.RateLimitResponse_OK
			if test.banned && name == "own" {
				want = pb.RateLimitResponse_OVER_LIMIT
			}
			if got := h.ask(t, req).OverallCode; got != want {
				t.Errorf("%s: %s %s: %s, want %s", name, test.key, test.value, got, want)
			}
		}
	}
}

// A banned client uses up nothing, is told until when, and no longer banned then.
func TestABanIsAnswered(t *testing.T) {
	h := build(t, plan{yaml: ownLimits, options: Options{Counting: Own}, read: descriptors.Options{Extensions: true}, bans: bannedAt(t, "203.0.113.7")})
	req := request(descriptor("user", "u"), descriptor("remote_address", "203.0.113.7"))
	h.at(time.Minute - 2*time.Second)
	var a *pb.RateLimitResponse
	for range 10 {
		a = h.ask(t, req)
	}
	if got := line(a); got != "OVER_LIMIT | OVER_LIMIT | OVER_LIMIT" {
		t.Errorf("banned: %s", got)
	}
	var problem struct {
		Status int    `json:"status"`
		Title  string `json:"title"`
	}
	if err := json.Unmarshal(a.RawBody, &problem); err != nil || problem.Status != 429 || problem.Title != "Too Many Requests" { // no quota is exceeded
		t.Errorf("the body %s: %v", a.RawBody, err)
	}
	header := map[string]string{}
	for _, f := range a.ResponseHeadersToAdd {
		header[f.Key] = f.Value
	}
	if diff := cmp.Diff("2", header["Retry-After"]); diff != "" {
		t.Errorf("Retry-After (-want +got):\n%s", diff)
	}
	h.at(time.Minute)
	if got := h.passes(t, 6, req); got != 5 {
		t.Errorf("%d passed afterwards, want all 5 of the limit", got)
	}
}
