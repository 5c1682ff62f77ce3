package xds

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// read returns the set that resources make, or what is wrong with them.
func (c *client) read(resources []*anypb.Any) (*descriptors.Set, error) {
	domains := make([]descriptors.Domain, 0, len(resources))
	for i, r := range resources {
		var m ratelimit.RateLimitConfig
		if err := r.UnmarshalTo(&m); err != nil {
			return nil, fmt.Errorf("resource %d: %w", i, err)
		}
		name := m.GetName()
		if name == "" {
			name = fmt.Sprintf("resource %d", i)
		}
		domains = append(domains, descriptors.Domain{File: name, Name: m.GetDomain(), Descriptors: descriptorsOf(m.GetDescriptors())})
	}
	set, problems := descriptors.Compile(domains, c.Descriptors)
	if set == nil {
		return nil, refusal(problems)
	}
	for _, p := range problems {
		c.Logger.Warn("configuration", "server", c.Server, "problem", p.String())
	}
	return set, nil
}

// maxSaid is how many problems the server is told of, and maxReason how many bytes that may be.
const (
	maxSaid   = 20
	maxReason = 4096
)

// refusal is what the server is told about problems, on one line.
func refusal(problems []config.Problem) error {
	var said []string
	for _, p := range problems {
		if !p.Warning && len(said) < maxSaid {
			said = append(said, p.String())
		}
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.Join(said, "; "))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") // a message of protobuf is UTF-8
	}
	return errors.New(text)
}

func descriptorsOf(all []*ratelimit.RateLimitDescriptor) []descriptors.Descriptor {
	if len(all) == 0 {
		return nil
	}
	to := make([]descriptors.Descriptor, len(all))
	for i, d := range all {
		to[i] = descriptors.Descriptor{
			Key: d.GetKey(), Value: d.GetValue(), RateLimit: limitOf(d.GetRateLimit()), Descriptors: descriptorsOf(d.GetDescriptors()),
			ShadowMode: d.GetShadowMode(), DetailedMetric: d.GetDetailedMetric(), QuotaMode: quotaMode(d),
		}
	}
	return to
}

func limitOf(p *ratelimit.RateLimitPolicy) *descriptors.RateLimit {
	if p == nil {
		return nil
	}
	l := &descriptors.RateLimit{Unit: unitOf(p.GetUnit()), RequestsPerUnit: p.GetRequestsPerUnit(), Unlimited: p.GetUnlimited(), Name: p.GetName()}
	for _, r := range p.GetReplaces() {
		l.Replaces = append(l.Replaces, r.GetName())
	}
	return l
}

// unitOf returns a unit's name. The published definition ends at DAY; newer servers know more.
func unitOf(u ratelimit.RateLimitUnit) string {
	switch u {
	case ratelimit.RateLimitUnit_UNKNOWN:
		return ""
	case 5:
		return "MONTH"
	case 6:
		return "YEAR"
	case 7:
		return "WEEK"
	}
	return u.String()
}

// quotaField is the number of quota_mode in a newer RateLimitDescriptor than the published one.
const quotaField = 7

// quotaMode returns the quota_mode of a newer server.
func quotaMode(d *ratelimit.RateLimitDescriptor) (quota bool) {
	for b := []byte(d.ProtoReflect().GetUnknown()); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return quota
		}
		if number == quotaField && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b[n:])
			quota = v != 0
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return quota
		}
		b = b[n+size:]
	}
	return quota
}
