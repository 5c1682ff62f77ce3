package replicas_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// A replica that alone is cut off from Redis grants its share, and says so; the others do not notice.
func TestOneIsCutOff(t *testing.T) {
	t.Parallel()
	redis, service := redistest.Start(t), startService(t)
	s := &stage{crowd: newCrowd(t), redis: redis, service: service, relay: startRelay(t, redis.Addr)}
	cut := startReplica(t, basics(service)+outageRules(s.relay.url()))
	well := startReplica(t, basics(service)+outageRules(redis.URL()))
	s.replicas, s.urls = []*replica{cut, well}, []string{cut.url, well.url}
	eventually(t, patience, "a shared count", s.countsTogether)
	load := s.startLoad(s.urls, "/steady", "/allow")
	before := cut.metric("weir_store_fallback_total")
	s.relay.swallow.Store(true)
	eventually(t, timed.Bound(noticed), "an open breaker", func() bool {
		return cut.metric("weir_store_breaker_open") == 1 && cut.metric("weir_store_fallback_total") > before
	})
	client := s.fresh()
	if diff := cmp.Diff(tally{200: share, 429: 20 - share}, s.hammer([]string{cut.url}, "/shared", client, 20)); diff != "" {
		t.Errorf("by itself (-want +got):\n%s", diff)
	}
	others := &stage{crowd: s.crowd, replicas: []*replica{well}}
	others.exactly(t, []string{well.url}, client, tally{200: shared, 429: 20 - shared})
	s.relay.swallow.Store(false)
	eventually(t, timed.Bound(recovered), "a shared count", s.countsTogether)
	allPassed(t, load.end())
}
