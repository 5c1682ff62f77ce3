package policy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// manyRules returns a configuration of n rules of one limit each, under a common first segment.
func manyRules(n int) *config.Config {
	cfg := config.Default()
	for i := range n {
		cfg.Rules = append(cfg.Rules, config.Rule{
			Name: fmt.Sprintf("rule%d", i),
			Path: fmt.Sprintf("/api/v1/resource%d/", i),
			Limits: []config.Limit{{
				Rate: &config.Rate{N: 100, Window: time.Minute, Text: "100/1m"}, Per: config.List{"client"},
			}},
		})
	}
	return cfg
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{2, 1000} {
		p := compiled(b, manyRules(n))
		reqs := make([]weir.Request, n)
		for i := range reqs {
			reqs[i] = request(fmt.Sprintf("/api/v1/resource%d/item", i))
		}
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			d := new(weir.Decision)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				decide(p, d, &reqs[i%n])
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{2, 1000} {
		p := compiled(b, manyRules(n))
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			d := &weir.Decision{Request: request("/api/v1/resource1/item")}
			b.ReportAllocs()
			for b.Loop() {
				p.Match(d)
			}
		})
	}
}

func BenchmarkHitsIPv6(b *testing.B) {
	p := compiled(b, manyRules(1))
	d := &weir.Decision{Request: request("/api/v1/resource0")}
	d.Request.Peer = netip.MustParseAddr("2001:db8:1:2::9")
	p.Identify(d)
	r := p.Match(d)
	b.ReportAllocs()
	for b.Loop() {
		d.Hits, d.Keys = d.Hits[:0], d.Keys[:0]
		r.Hits(d)
	}
}

// Compiling is part of every reload: 1,000 rules may take 50 ms.
func BenchmarkCompile(b *testing.B) {
	cfg := manyRules(1000)
	for b.Loop() {
		Compile(cfg)
	}
	if each := b.Elapsed() / time.Duration(b.N); each > 50*time.Millisecond {
		b.Errorf("1,000 rules take %v, want at most 50ms", each)
	}
}
