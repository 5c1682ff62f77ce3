package asked

import (
	"slices"
	"testing"
	"time"

	"github.com/weirgate/weir/bench/report"
)

// Every bar has its figure, and what it is compared with was measured, too.
func TestFronts(t *testing.T) {
	if program := missing("redis-server", "nginx", "haproxy", "wrk"); program != "" {
		t.Skip(program + " is not installed")
	}
	t.Chdir("..")
	s, err := Fronts(Options{Rounds: 1, Slot: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, table := range s.Tables {
		rows += len(table.Rows)
	}
	peers := len(s.Peers) // none where none could be built, else of up to three services
	if len(s.Checks) != 18 || len(s.Tables) != 3 || rows != 14+peers || peers > 12 {
		t.Fatalf("%d checks and %d tables of %d rows, %d peers, want 18 and 3 of 14 and the peers", len(s.Checks), len(s.Tables), rows, peers)
	}
	for _, c := range s.Checks {
		if c.Measured <= 0 && c.Unit != "each" || c.Beside != "" && c.Ratio <= 0 {
			t.Errorf("%+v: want a figure, and the ratio", c)
		}
	}
}

func TestChecks(t *testing.T) {
	at := func(name string, us, rate float64) cost {
		return cost{name, []float64{us}, []float64{us}, []float64{rate}, []float64{1}}
	}
	null := at(nullName, 30, 30_000)
	for _, test := range []struct {
		name    string
		callers int
		weir    cost
		missed  int
	}{
		{"memory, at the bars", 64, at(memoryName, 45, 18_000), 0},
		{"memory, beyond them", 64, at(memoryName, 45.1, 17_999), 2},
		{"Redis, at the bars", 64, at(redisName, 60, 18_000), 0},
		{"Redis, beyond them", 64, at(redisName, 60.1, 17_999), 2},
		{"refused without Redis, beyond the bar of memory", 1, at(redisName+overSuffix, 45.1, 1), 1},
		{"one caller has no rate to keep", 1, at(memoryName, 45, 1), 0},
	} {
		r := report.Report{Sections: []report.Section{{Checks: rlsChecks(test.callers, []cost{null, test.weir})}}}
		if missed := r.Missed(); len(missed) != test.missed {
			t.Errorf("%s: missed %+v, want %d", test.name, missed, test.missed)
		}
	}
	for name, test := range map[string]struct {
		weir   cost
		missed int
	}{"nginx, at the bars": {at("", 105.2, 95), 0}, "nginx, beyond them": {at("", 105.3, 94.9), 2}} {
		r := report.Report{Sections: []report.Section{{Checks: nginxChecks(test.weir, at("", 100, 100))}}}
		if missed := r.Missed(); len(missed) != test.missed {
			t.Errorf("%s: missed %+v, want %d", name, missed, test.missed)
		}
	}
}

// A service is set beside Weir with the count in the same place, asked for the same.
func TestBeside(t *testing.T) {
	at := func(name string, us float64) cost { return cost{name: name, us: []float64{us}} }
	costs := []cost{
		at(nullName, 20), at(memoryName, 25), at(memoryName+overSuffix, 30), at(redisName, 50), at(redisName+overSuffix, 40),
		at(ratelimitName, 100), at(cachedName+overSuffix, 60), at(gubernatorName, 75), at(gubernatorName+overSuffix, 15),
	}
	want := []report.Peer{
		{Name: ratelimitName, What: "processor time, 64 at once", Cost: 2},
		{Name: cachedName, What: "processor time, 64 at once, over its limit", Cost: 1.5},
		{Name: gubernatorName, What: "processor time, 64 at once", Cost: 3},
		{Name: gubernatorName, What: "processor time, 64 at once, over its limit", Cost: 0.5},
	}
	if got := beside(64, costs); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := toWeir(costs[0], costs); got != "" {
		t.Errorf("the null service, which counts nothing, beside Weir: %s, want nothing", got)
	}
}
