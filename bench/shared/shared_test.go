package shared

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/weirgate/weir/bench/report"
)

// running returns a server for the test.
func running(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// Every bar has its figure, and what it is compared with was measured too.
func TestRedis(t *testing.T) {
	running(t)
	s, err := Redis(Options{Rounds: 1, Slot: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Checks) != 7 || len(s.Tables) != 1 || len(s.Tables[0].Rows) != 16 || len(s.Peers) != 16 {
		t.Fatalf("%d checks, tables %v and peers %v, want 7 checks, a table of 16 rows and 16 peers", len(s.Checks), s.Tables, s.Peers)
	}
	for _, c := range s.Checks {
		if c.Measured <= 0 || c.Bar == "" || c.Beside != "" && c.Ratio <= 0 {
			t.Errorf("%+v: want a figure, a bar and the ratio", c)
		}
	}
}

func TestChecks(t *testing.T) {
	at := func(wall, p99, cpu float64) figure {
		return figure{wall: wall, p99: p99, cpu: cpu, walls: []float64{wall}}
	}
	for _, test := range []struct {
		name    string
		callers int
		figures []figure // one limit, three, plain
		missed  int
	}{
		{"alone, at the bars", 1, []figure{at(110, 0, 0), at(143, 0, 0), at(100, 0, 0)}, 0},
		{"alone, beyond them", 1, []figure{at(111, 0, 0), at(145, 0, 0), at(100, 0, 0)}, 2},
		{"64, at the bars", 64, []figure{at(10, 3000, 7), at(13, 0, 0), at(25, 0, 0)}, 0},
		{"64, beyond them", 64, []figure{at(10.1, 3001, 7.1), at(14, 0, 0), at(25, 0, 0)}, 4},
	} {
		r := report.Report{Sections: []report.Section{{Checks: checks(test.callers, test.figures)}}}
		if missed := r.Missed(); len(missed) != test.missed {
			t.Errorf("%s: missed %+v, want %d", test.name, missed, test.missed)
		}
	}
}

// A decision that fails ends the measurement with its error.
func TestLoadFails(t *testing.T) {
	s := running(t)
	cause := errors.New("away")
	if _, err := load(s.cpu, 4, time.Minute, func(int) error { return cause }); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

// The 99th percentile is of single waits: one slow call in twenty shows there and not in the median.
func TestLoad(t *testing.T) {
	s := running(t)
	sample, err := load(s.cpu, 1, 200*time.Millisecond, func(i int) error {
		if i%20 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		return s.client.Ping(t.Context()).Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if p50, p99 := sample[1], sample[2]; p99 < 5000 || p50 >= 5000 {
		t.Errorf("median %v µs, 99th percentile %v µs; want the 5 ms in the latter only", p50, p99)
	}
}
