package envoyrls

import (
	"net/http"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/engine"
)

// banned refuses the decision if a ban holds for the address that a descriptor names, or for all of its network.
// Nothing is counted then. The status is the one that Envoy answers by itself.
func (c *call) banned(snapshot *engine.Snapshot) bool {
	if snapshot.Bans == nil {
		return false
	}
	for _, descriptor := range c.request.GetDescriptors() {
		for _, e := range descriptor.GetEntries() {
			if b := c.banOf(snapshot, e); b != nil {
				c.d.Ban = b
				c.d.Refuse(weir.BannedClient, http.StatusTooManyRequests)
				return true
			}
		}
	}
	return false
}

// banOf returns the ban that holds for what an entry names, or nil. Envoy's actions remote_address and
// masked_remote_address name an address or a network by its own judgement; other entries may be the asker's words.
func (c *call) banOf(snapshot *engine.Snapshot, e *ratelimitv3.RateLimitDescriptor_Entry) *weir.Ban {
	if key := e.GetKey(); key != "remote_address" && key != "masked_remote_address" {
		return nil
	}
	n, ok := clientip.ParseNetwork(e.GetValue())
	if !ok {
		return nil
	}
	return snapshot.BanAround(c.d.At, n.Masked())
}

// banAnswer is the answer to a banned client: every descriptor is over.
func banAnswer(snapshot *engine.Snapshot, c *call) *pb.RateLimitResponse {
	a := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OVER_LIMIT}
	for range c.request.GetDescriptors() {
		a.Statuses = append(a.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OVER_LIMIT})
	}
	ownHeaders(snapshot, c.d, a)
	return a
}
