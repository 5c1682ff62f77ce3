package tarpit

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
)

// Weir holds no more than it may, and every row has its figures.
func TestTarpit(t *testing.T) {
	if !process.Installed("haproxy") {
		t.Skip("haproxy is not installed")
	}
	t.Chdir("..")
	s, err := Tarpit(Options{Flood: 1500 * time.Millisecond, Scrape: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 2 || len(s.Tables[0].Rows) != 5 || len(s.Tables[1].Rows) != 4 || len(s.Checks) != 4 || len(s.Peers) != 6 {
		t.Fatalf("%d checks, %d peers and tables %+v, want 4, 6 and two of 5 and 4 rows", len(s.Checks), len(s.Peers), s.Tables)
	}
	for _, c := range s.Checks[:2] {
		if c.Measured <= 0 || c.Bar != "" && !c.Met {
			t.Errorf("%+v: want a figure within its bar", c)
		}
	}
}

func TestChecks(t *testing.T) {
	at := func(held float64, connections, answered int) result {
		return result{outcome: outcome{sent: 100, asked: 10, waits: make([]float64, answered), seconds: 1}, peak: peak{held: held, descriptors: connections}}
	}
	for name, test := range map[string]struct {
		weir   result
		missed int
	}{
		"at the bars":        {at(100, 150, 10), 0},
		"one held too many":  {at(101, 150, 10), 1},
		"one innocent waits": {at(100, 150, 9), 1},
	} {
		floods := map[string]result{weirHolds: test.weir, haproxyHolds: at(0, 300, 10)}
		s := report.Section{Checks: checks(floods, map[string]result{weirHolds: at(0, 0, 0), weirRefuses: at(0, 0, 0)})}
		r := report.Report{Sections: []report.Section{s}}
		if missed := r.Missed(); len(missed) != test.missed || s.Checks[1].Ratio != 0.5 {
			t.Errorf("%s: missed %+v, ratio %v, want %d and 0.5", name, missed, s.Checks[1].Ratio, test.missed)
		}
	}
}

// Every request of an attack comes from one of the attackers, that of the bystander from its own address.
func TestRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := net.SplitHostPort(r.RemoteAddr); (host == innocent) == (r.URL.Path == "/attacked") {
			w.WriteHeader(http.StatusTeapot)
		}
	})}
	go server.Serve(l) // until Close
	defer server.Close()
	for name, a := range map[string]attack{"flood": flood, "scrape": scrape} {
		o := run(a, l.Addr().String(), 300*time.Millisecond)
		if o.sent == 0 || o.statuses["200"] == 0 || len(o.statuses) != 1 || o.asked == 0 || len(o.waits) == 0 {
			t.Errorf("%s: %+v: want answers of 200 for both", name, o)
		}
	}
}
