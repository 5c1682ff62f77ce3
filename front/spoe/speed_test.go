package spoe

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// answering has HAProxy answer what passes, so that no service is part of what is measured.
func answering(config string) string {
	return strings.Replace(config, "    default_backend app\n", "    http-request return status 200 content-type text/plain string ok\n", 1)
}

// alone is answering without asking anybody.
func alone(config string) string {
	return strings.Replace(answering(config), "    filter spoe", "    #filter spoe", 1)
}

var requestRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)

// BenchmarkHAProxy is how many requests an HAProxy answers by itself, and how many it asks about. Each is
// one run of wrk with 32 connections.
func BenchmarkHAProxy(b *testing.B) {
	wrk := proctest.Need(b, "wrk")
	for _, run := range []struct {
		name string
		edit func(string) string
	}{{"alone", alone}, {"asking", answering}} {
		b.Run(run.name, func(b *testing.B) {
			h := open(b, plenty, Options{})
			s := plan{agents: []*house{h}, edit: run.edit, hasty: true}.start(b)
			for b.Loop() {
				began := time.Now()
				out, err := exec.Command(wrk, "-t1", "-c32", "-d3s", "--latency", s.url).CombinedOutput()
				if err != nil {
					b.Fatalf("wrk: %v\n%s", err, out)
				}
				rate := requestRate.FindSubmatch(out)
				if rate == nil || strings.Contains(string(out), "Non-2xx") {
					b.Fatalf("wrk:\n%s", out)
				}
				perSecond, _ := strconv.ParseFloat(string(rate[1]), 64)
				b.ReportMetric(perSecond, "req/s")
				b.ReportMetric(float64(h.requests())/time.Since(began).Seconds(), "checks/s")
			}
		})
	}
}
