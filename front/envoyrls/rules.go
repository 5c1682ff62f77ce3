package envoyrls

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// rules is a configuration, and what was made of its limits and domains when they were first asked for: no
// more than it has.
type rules struct {
	set     *descriptors.Set
	server  *Server
	limits  sync.Map // of *limit, by *descriptors.Limit
	domains sync.Map // of *weir.Rule, by name
}

// A limit is a limit of the configuration, or one that a descriptor brought along, as it is counted and told.
type limit struct {
	from    descriptors.Limit
	counted weir.Limit
	told    *pb.RateLimitResponse_RateLimit
	near    int64   // hits above it are near the limit
	stats   *series // nil: each metric is looked for
}

func newRules(set *descriptors.Set, s *Server) *rules { return &rules{set: set, server: s} }

// rule is what decisions about a known domain are counted under.
func (r *rules) rule(domain string) *weir.Rule {
	if known, ok := r.domains.Load(domain); ok {
		return known.(*weir.Rule)
	}
	rule := &weir.Rule{Name: ruleOf(domain), Host: "*", Path: "*", Method: "*", Action: weir.Reject, OnFailure: r.server.options.OnFailure}
	known, _ := r.domains.LoadOrStore(strings.Clone(domain), rule)
	return known.(*weir.Rule)
}

// ruleOf is the name of the rule that stands for a domain. Names of other rules have no colon.
func ruleOf(domain string) string { return "rls:" + domain }

// limit returns what was made of from, which is in the configuration of domain.
func (r *rules) limit(domain string, from *descriptors.Limit) *limit {
	if known, ok := r.limits.Load(from); ok {
		return known.(*limit)
	}
	l := r.server.newLimit(*from)
	if !from.Unlimited {
		l.stats = r.server.metrics.configured(domain, from.Metric)
	}
	known, _ := r.limits.LoadOrStore(from, l)
	return known.(*limit)
}

// newLimit returns from as it is counted and told.
func (s *Server) newLimit(from descriptors.Limit) *limit {
	l := &limit{from: from, near: nearLine(from.PerUnit, s.options.Settings.NearLimitRatio)}
	l.counted = weir.Limit{
		Name: from.Name, Rate: rateText(&from), Algorithm: weir.FixedWindow,
		Max: int64(from.PerUnit), Burst: int64(from.PerUnit), Window: from.Window,
	}
	if l.counted.Name == "" {
		l.counted.Name = strings.ToValidUTF8(from.Metric, "\uFFFD")
	}
	if from.Shadow || from.Quota || s.options.Settings.Shadow || s.options.Settings.Quota {
		l.counted.Mode = weir.Shadow // it does not refuse by itself
	}
	if s.options.Counting == Own {
		l.counted.Algorithm = from.Algorithm
		if from.Burst > 0 {
			l.counted.Burst = int64(from.Burst)
		}
	}
	l.told = &pb.RateLimitResponse_RateLimit{Name: from.Name, RequestsPerUnit: from.PerUnit, Unit: toldUnits[from.Unit]}
	if unit := from.Unit.Window(); unit > 0 && from.Window > unit && from.Window%unit == 0 {
		l.told.UnitMultiplier = wrapperspb.UInt32(uint32(from.Window / unit))
	}
	return l
}

// nearLine is the count above which hits are near a limit, in single precision as upstream computes it.
func nearLine(perUnit uint32, ratio float64) int64 {
	return int64(math.Floor(float64(float32(perUnit) * float32(ratio))))
}

func rateText(l *descriptors.Limit) string {
	text := l.Unit.String()
	if l.Window != l.Unit.Window() {
		text = l.Window.String()
	}
	return strconv.FormatUint(uint64(l.PerUnit), 10) + "/" + text
}

var toldUnits = [...]pb.RateLimitResponse_RateLimit_Unit{
	descriptors.Second: pb.RateLimitResponse_RateLimit_SECOND,
	descriptors.Minute: pb.RateLimitResponse_RateLimit_MINUTE,
	descriptors.Hour:   pb.RateLimitResponse_RateLimit_HOUR,
	descriptors.Day:    pb.RateLimitResponse_RateLimit_DAY,
	descriptors.Week:   pb.RateLimitResponse_RateLimit_WEEK,
	descriptors.Month:  pb.RateLimitResponse_RateLimit_MONTH,
	descriptors.Year:   pb.RateLimitResponse_RateLimit_YEAR,
}

// overrideUnit is the unit that a descriptor's own limit names: NoUnit where none is known by it.
func overrideUnit(u typev3.RateLimitUnit) descriptors.Unit {
	switch u {
	case typev3.RateLimitUnit_SECOND:
		return descriptors.Second
	case typev3.RateLimitUnit_MINUTE:
		return descriptors.Minute
	case typev3.RateLimitUnit_HOUR:
		return descriptors.Hour
	case typev3.RateLimitUnit_DAY:
		return descriptors.Day
	case typev3.RateLimitUnit_MONTH:
		return descriptors.Month
	case typev3.RateLimitUnit_YEAR:
		return descriptors.Year
	}
	return descriptors.NoUnit
}

// wholeSeconds is d in seconds, rounded up and at least 1.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d-1)/time.Second)+1)
}
