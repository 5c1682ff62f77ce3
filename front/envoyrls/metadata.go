package envoyrls

import (
	"fmt"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata is what was asked, and what the limits that passed say of themselves.
func (s *Server) metadata(c *call, statuses []pb.RateLimitResponse_DescriptorStatus) *structpb.Struct {
	asked := make([]*structpb.Value, 0, len(c.request.GetDescriptors()))
	for _, descriptor := range c.request.GetDescriptors() {
		asked = append(asked, structpb.NewStructValue(shownDescriptor(descriptor)))
	}
	fields := map[string]*structpb.Value{
		"domain":      text(c.request.GetDomain()),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: asked}),
	}
	if n := c.request.GetHitsAddend(); n != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	passed := map[string]any{}
	for i := range c.asked {
		if l := c.asked[i].limit; l != nil && !l.from.Unlimited && statuses[i].Code == pb.RateLimitResponse_OK {
			merge(passed, l.from.Metadata)
		}
	}
	if len(passed) > 0 {
		if of, err := structpb.NewStruct(passed); err == nil {
			fields["metadata"] = structpb.NewStructValue(of)
		}
	}
	return &structpb.Struct{Fields: fields}
}

func shownDescriptor(d *ratelimitv3.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, 0, len(d.GetEntries()))
	for _, e := range d.GetEntries() {
		entries = append(entries, text(e.GetKey()+"="+e.GetValue()))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if own := d.GetLimit(); own != nil {
		fields["limit"] = text(fmt.Sprintf("requests_per_unit:%d unit:%v", own.GetRequestsPerUnit(), own.GetUnit()))
	}
	if n := d.GetHitsAddend(); n != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n.GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

func text(s string) *structpb.Value { return structpb.NewStringValue(s) }

// merge adds from to to: maps are joined, and of others the first stays.
func merge(to, from map[string]any) {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		there, taken := to[key]
		switch into, both := there.(map[string]any); {
		case !taken && isMap:
			into = map[string]any{}
			merge(into, below)
			to[key] = into
		case !taken:
			to[key] = value
		case both && isMap:
			merge(into, below)
		}
	}
}
