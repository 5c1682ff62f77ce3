package replay

import (
	"context"
	"os"
	"testing"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
)

func compile(t testing.TB, text string) *policy.Policy {
	t.Helper()
	c, problems := config.Parse("test.yaml", []byte(text), nil)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	p, problems := policy.Compile(c)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	return p
}

func BenchmarkFile(b *testing.B) {
	text, _ := os.ReadFile("/tmp/gen/p2.yaml")
	p := compile(b, string(text))
	for b.Loop() {
		logs, err := accesslog.OpenAll([]string{"/tmp/gen/c.log"}, accesslog.OpenOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r := New(Options{Policy: Policy{Policy: p}, Has: accesslog.Common(logs)})
		if err := r.Read(context.Background(), logs[0]); err != nil {
			b.Fatal(err)
		}
		rep := r.Report(false)
		b.ReportMetric(float64(rep.Lines.Read)/b.Elapsed().Seconds(), "lines/s")
		r.Close()
	}
}
