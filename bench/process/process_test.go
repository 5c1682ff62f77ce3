package process

import (
	"testing"
	"time"
)

const printed = `Running 2s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.00ms    1.00ms   9.00ms   88.00%
  10000 requests in 2.00s, 1.91MB read
  Non-2xx or 3xx responses: 9990
Requests/sec:   5000.00
`

func TestParseReadsWhatWrkPrints(t *testing.T) {
	for _, c := range []struct {
		out  string
		want Load
		ok   bool
	}{
		{printed, Load{10000, 9990}, true},
		{"10 requests in 2.00s\n", Load{10, 0}, true},
		{"0 requests in 2.00s\n", Load{}, false},
		{"10 requests in 2.00s\n  Socket errors: connect 1, read 0, write 0, timeout 0\n", Load{}, false},
		{"unable to connect to 127.0.0.1:1 Connection refused\n", Load{}, false},
	} {
		got, err := parse(c.out)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %v, %v; want %v, ok %v", c.out, got, err, c.want, c.ok)
		}
	}
}

func TestProcReadsTimesAndMemory(t *testing.T) {
	// The name of a program may hold anything, even what ends it.
	const stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 5\n"
	if got := cpuTime(stat); got != 2*time.Second {
		t.Errorf("processor time %v, want 2s", got)
	}
	if got := cpuTime(""); got != 0 {
		t.Errorf("processor time of one that is gone %v, want 0", got)
	}
	if got := residentOf("Name:\tx\nVmRSS:\t   20480 kB\n"); got != 20 {
		t.Errorf("resident %v MB, want 20", got)
	}
}
