package stickexport

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Lines as HAProxy 2.6.12 wrote them, and one as later versions do.
func TestRows(t *testing.T) {
	second := Seconds(time.Second)
	tests := []struct {
		line string
		want Entry
	}{
		{`0x55afa7cf3d20: key=::ffff:127.0.0.1 use=0 exp=3599684 gpc0=0 gpc0_rate(30000)=0 conn_cur=0 http_req_cnt=12 http_req_rate(10000)=11 bytes_out_rate(60000)=588`,
			Entry{Key: "::ffff:127.0.0.1", Expires: Seconds(3599684 * time.Millisecond), Data: []Datum{
				{"gpc0", 0, 0}, {"gpc0_rate", 30 * second, 0}, {"conn_cur", 0, 0}, {"http_req_cnt", 0, 12}, {"http_req_rate", 10 * second, 11}, {"bytes_out_rate", 60 * second, 588}}}},
		{`0x55afa7cf3df0: key=a\ b\=c"d\\e use=0 exp=0 http_req_cnt=6 server_key=-`,
			Entry{Key: `a\ b\=c"d\\e`, Data: []Datum{{"http_req_cnt", 0, 6}}}},
		{`0x7f00: key=10.0.0.1 use=1 exp=5000 shard=0 gpt0=1 gpc1_rate(1000)=7`,
			Entry{Key: "10.0.0.1", Expires: 5 * second, Data: []Datum{{"gpt0", 0, 1}, {"gpc1_rate", second, 7}}}},
		{`0x7f00: key= use=0 exp=1 x(=1 y()=2 z(a)=3 =4 w=-1`,
			Entry{Key: "", Expires: Seconds(time.Millisecond), Data: []Datum{{"x(", 0, 1}, {"y", 0, 2}, {"z", 0, 3}, {"", 0, 4}, {"w", 0, -1}}}},
		{`key=a\`, Entry{Key: `a\`, Data: []Datum{}}},
	}
	for _, tt := range tests {
		var r row
		if !r.parse([]byte(tt.line)) {
			t.Errorf("%s: no key", tt.line)
		}
		if diff := cmp.Diff(tt.want, r.keep()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
}

func TestRowsThatAreNone(t *testing.T) {
	for _, line := range []string{"", "hello", "0x12: use=1", `k\ey=1`, "keys=1"} {
		var r row
		if r.parse([]byte(line)) {
			t.Errorf("%q: key %q, want none", line, r.key)
		}
	}
}

func TestTables(t *testing.T) {
	got, err := parseTable("# table: web, type: ip, size:204800, used:2")
	if want := (table{"web", "ip", 204800, 2}); got != want || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, line := range []string{"", "# table: web", "# table: a, type: ip, size:x, used:2", "# table: a, type: ip, size:1, used:", "table: a, type: ip, size:1, used:2"} {
		if got, err := parseTable(line); err == nil {
			t.Errorf("%q: %+v, want an error", line, got)
		}
	}
}

var (
	word    = regexp.MustCompile(`(?s)(?:\\.|[^\\ ]|\\$)+`)
	counted = regexp.MustCompile(`(?s)^(.*?)\((.*)\)$`)
)

// slowly reads a line with expressions.
func slowly(line string) (Entry, bool) {
	e, found := Entry{Data: []Datum{}}, false
	for _, w := range word.FindAllString(line, -1) {
		name, value, ok := strings.Cut(w, "=")
		number, err := strconv.ParseInt(value, 10, 64)
		switch {
		case !ok:
		case name == "key":
			e.Key, found = value, true
		case name == "exp":
			e.Expires = Seconds(time.Duration(number) * time.Millisecond)
		case name == "use", name == "shard":
		case err == nil:
			d := Datum{Name: name, Value: number}
			if m := counted.FindStringSubmatch(name); m != nil {
				period, _ := strconv.ParseInt(m[2], 10, 64)
				d.Name, d.Period = m[1], Seconds(time.Duration(period)*time.Millisecond)
			}
			e.Data = append(e.Data, d)
		}
	}
	return e, found
}

func FuzzRow(f *testing.F) {
	f.Add(`0x55afa7cf3d20: key=::ffff:127.0.0.1 use=0 exp=3599684 gpc0=0 http_req_rate(10000)=11`)
	f.Add(`0x55afa7cf3df0: key=a\ b\=c"d\\e use=0 exp=0 shard=1 http_req_cnt=6 server_key=-`)
	f.Fuzz(func(t *testing.T, line string) {
		var r row
		found := r.parse([]byte(line))
		want, wantFound := slowly(line)
		if diff := cmp.Diff(want, r.keep()); diff != "" || found != wantFound {
			t.Errorf("%q: found %v, want %v (-want +got):\n%s", line, found, wantFound, diff)
		}
		_, _ = parseTable(line) // must not panic
	})
}

func TestReadingARowAllocatesNothing(t *testing.T) {
	line := []byte(`0x55afa7cf3d20: key=2001:db8::1 use=0 exp=3599684 gpc0=0 http_req_rate(10000)=11`)
	var r row
	few := top{by: "http_req_rate", most: 1, entries: []Entry{{Value: 12}}}
	if n := testing.AllocsPerRun(100, func() { r.parse(line); few.add(&r, 0) }); n > 0 {
		t.Errorf("%.1f allocations, want none", n)
	}
}
