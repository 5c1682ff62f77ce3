package stickexport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/timed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A speaker is a socket that answers as a test says, and notes what it was asked.
type speaker struct {
	addr string

	mu    sync.Mutex
	asked []string
}

// speak listens on a socket until the test ends.
func speak(t *testing.T, answer func(command string, w io.Writer)) *speaker {
	t.Helper()
	s := &speaker{addr: filepath.Join(t.TempDir(), "sock")}
	l, err := net.Listen("unix", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				command, _ := bufio.NewReader(c).ReadString('\n')
				s.note(strings.TrimSpace(command))
				answer(strings.TrimSpace(command), c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return s
}

func (s *speaker) note(command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, command)
}

// commands returns what was asked since it was called last.
func (s *speaker) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func reader(t testing.TB, o Options) *Reader {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A rates is a table of http_req_rate by key, which HAProxy can filter by.
type rates struct {
	mu  sync.Mutex
	of  map[string]int
	off bool // there is no answer
}

// set puts one rate for all keys.
func (r *rates) set(rate int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.of {
		r.of[key] = rate
	}
}

// turn has the table answered for, or not.
func (r *rates) turn(off bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = off
}

func (r *rates) answer(command string, w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off {
		return
	}
	above := -1
	_, _ = fmt.Sscanf(command, "show table web data.http_req_rate gt %d", &above) // nothing where there is no filter
	fmt.Fprintf(w, "# table: web, type: ip, size:100, used:%d\n", len(r.of))
	for key, rate := range r.of {
		if rate > above {
			fmt.Fprintf(w, "0x1: key=%s use=0 exp=9000 http_req_rate(10000)=%d http_req_cnt=1\n", key, rate)
		}
	}
	fmt.Fprintln(w)
}

// keys are those of a ranking, in its order.
func keys(r *Ranking) (list []string) {
	for _, e := range r.Entries {
		list = append(list, fmt.Sprintf("%d:%s=%d", e.Rank, e.Key, e.Value))
	}
	return list
}

func TestTop(t *testing.T) {
	s := speak(t, (&rates{of: map[string]int{"a": 5, "b": 9, "c": 5, "d": 0, "e": 7}}).answer)
	tests := []struct {
		o    Options
		want []string
	}{
		{Options{Top: 10}, []string{"1:b=9", "2:e=7", "3:a=5", "4:c=5"}}, // none of 0
		{Options{Top: 3}, []string{"1:b=9", "2:e=7", "3:a=5"}},           // of equal ones the smaller key
		{Options{Top: 1}, []string{"1:b=9"}},
		{Options{Top: 10, Min: 5}, []string{"1:b=9", "2:e=7"}},
		{Options{Top: 10, Min: 9}, nil},
	}
	for _, tt := range tests {
		tt.o.Socket, tt.o.Table, tt.o.By = s.addr, "web", "http_req_rate"
		got, err := reader(t, tt.o).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(keys(got), tt.want) {
			t.Errorf("%+v: %v, want %v", tt.o, keys(got), tt.want)
		}
	}
}

// What a reading finds decides what the next one asks for; where that was too much, it asks again.
func TestAsksForNoMoreThanTheTop(t *testing.T) {
	table := &rates{of: map[string]int{}}
	for i := range 20 {
		table.of[fmt.Sprintf("10.0.0.%d", i)] = 100 + i
	}
	s := speak(t, table.answer)
	r := reader(t, Options{Socket: s.addr, Table: "web", By: "http_req_rate", Top: 2})
	read := func() []string {
		t.Helper()
		got, err := r.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return keys(got)
	}
	for _, step := range []struct {
		what string
		do   func()
		want []string
		asks []string
	}{
		{"first", func() {}, []string{"1:10.0.0.19=119", "2:10.0.0.18=118"}, []string{"0"}},
		{"again", func() {}, []string{"1:10.0.0.19=119", "2:10.0.0.18=118"}, []string{"59"}},
		{"all fell", func() { table.set(3) }, []string{"1:10.0.0.0=3", "2:10.0.0.1=3"}, []string{"59", "0"}},
		{"and then", func() {}, []string{"1:10.0.0.0=3", "2:10.0.0.1=3"}, []string{"1"}},
	} {
		step.do()
		if got := read(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
		var want []string
		for _, above := range step.asks {
			want = append(want, "show table web data.http_req_rate gt "+above)
		}
		if got := s.commands(); !slices.Equal(got, want) {
			t.Errorf("%s: asked %q, want %q", step.what, got, want)
		}
	}
}

// haproxy#2024: some versions show entries whose time is up. Where a table has no expiry, all look like
// that, and all are shown.
func TestExpiredEntries(t *testing.T) {
	for _, tt := range []struct {
		lines string
		want  []string
	}{
		{"0x1: key=a use=0 exp=0 gpc0=9\n0x1: key=b use=0 exp=5 gpc0=1\n0x1: key=c use=0 exp=1001 gpc0=2\n", []string{"1:c=2", "2:b=1"}},
		{"0x1: key=a use=0 exp=0 gpc0=9\n0x1: key=b use=0 exp=1 gpc0=1\n", []string{"1:a=9", "2:b=1"}},
	} {
		s := speak(t, func(_ string, w io.Writer) {
			fmt.Fprintf(w, "# table: web, type: ip, size:100, used:2\n%s\n", tt.lines)
		})
		got, err := reader(t, Options{Socket: s.addr, Table: "web", By: "gpc0"}).Read(t.Context())
		if err != nil || !slices.Equal(keys(got), tt.want) {
			t.Errorf("%q: %v, %v, want %v", tt.lines, keys(got), err, tt.want)
		}
	}
}

// haproxy#3186: an element of an array has another name in a filter than in a dump.
func TestElementsOfArrays(t *testing.T) {
	tests := []struct{ by, known, want string }{
		{"gpc1_rate", "gpc_rate[1]", "gpc1_rate gpc_rate[1]"},
		{"gpc0", "gpc0", "gpc0"},
		{"gpc0_rate", "gpc_rate", "gpc0_rate gpc_rate[0] gpc_rate"},
		{"gpt7", "", "gpt7 gpt[7] all"},
	}
	for _, tt := range tests {
		s := speak(t, func(command string, w io.Writer) {
			if _, filter, ok := strings.Cut(command, " data."); ok && !strings.HasPrefix(filter, tt.known+" ") {
				fmt.Fprint(w, "Filter entry #1: Data type not stored in this table\n\n")
				return
			}
			fmt.Fprintf(w, "# table: web, type: ip, size:1, used:1\n0x1: key=a use=0 exp=1 %s(5)=4\n\n", tt.by)
		})
		got, err := reader(t, Options{Socket: s.addr, Table: "web", By: tt.by}).Read(t.Context())
		if err != nil || !slices.Equal(keys(got), []string{"1:a=4"}) {
			t.Errorf("%s: %v, %v", tt.by, got, err)
		}
		var asked []string
		for _, c := range s.commands() {
			_, filter, ok := strings.Cut(strings.TrimPrefix(c, "show table web"), "data.")
			if !ok {
				filter = "all gt"
			}
			asked = append(asked, strings.Fields(filter)[0])
		}
		if got := strings.Join(asked, " "); got != tt.want {
			t.Errorf("%s: asked by %s, want %s", tt.by, got, tt.want)
		}
	}
}

func TestWhatIsRankedByIfNothingIsSaid(t *testing.T) {
	for names, want := range map[string]string{"gpc0=1 http_req_cnt=2 http_req_rate(10)=3": "http_req_rate", "color=1 gpt0=4": "color", "": ""} {
		s := speak(t, func(_ string, w io.Writer) {
			fmt.Fprint(w, "# table: web, type: ip, size:1, used:1\n")
			if names != "" {
				fmt.Fprintf(w, "0x1: key=a use=0 exp=1 %s\n", names)
			}
			fmt.Fprintln(w)
		})
		got, err := reader(t, Options{Socket: s.addr, Table: "web"}).Read(t.Context())
		if err != nil || got.By != want {
			t.Errorf("%q: %+v, %v, want it by %q", names, got, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	say := func(text string) string {
		return speak(t, func(_ string, w io.Writer) { _, _ = io.WriteString(w, text) }).addr
	}
	const head = "# table: web, type: ip, size:1, used:1\n"
	closed, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, socket, want string }{
		{"no socket", filepath.Join(t.TempDir(), "none"), "no such socket"},
		{"no socket either", "unix:/no/such/sock", "no such socket"},
		{"nobody listens", closed, "nobody listens"},
		{"no table", say("No such table\n\n"), "no table web: want one of none"},
		{"not stored", speak(t, func(command string, w io.Writer) {
			if strings.Contains(command, "data.") {
				fmt.Fprint(w, "Filter entry #1: Data type not stored in this table\n\n")
				return
			}
			fmt.Fprint(w, head+"0x1: key=a use=0 exp=1 gpc0=1 gpt0=2\n\n")
		}).addr, "does not store http_req_rate: want one of gpc0, gpt0"},
		{"level user", say(head + "# contents not dumped due to insufficient privileges\n\n"), `want "level operator"`},
		{"denied", say("Permission denied\n\n"), `want "level operator"`},
		{"something else", say("HTTP/1.1 400 Bad Request\r\n\r\n"), "is it HAProxy's runtime socket?"},
		{"nothing", say(""), "is it HAProxy's runtime socket?"},
		{"strange head", say("# table: web\n\n"), "is not the head of a table"},
		{"strange entry", say(head + "what?\n\n"), "is not an entry"},
		{"early end", say(head + "0x1: key=a use=0 exp=1 http_req_rate(5)=1\n"), "the answer ends early"},
		{"long line", say(head + strings.Repeat("x", maxLine+1) + "\n\n"), "a line of more than 65536 bytes"},
	}
	for _, tt := range tests {
		got, err := reader(t, Options{Socket: tt.socket, Table: "web", By: "http_req_rate"}).Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestSocketWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may connect to anything")
	}
	s := speak(t, func(string, io.Writer) {})
	if err := os.Chmod(s.addr, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := reader(t, Options{Socket: s.addr, Table: "web"}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v, want it to say that permission is denied", err)
	}
}

// Who does not answer is not waited for.
func TestTimeouts(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	s := speak(t, func(_ string, w io.Writer) { fmt.Fprint(w, "# table: web, type: ip, size:1, used:1\n"); <-hold })
	began := time.Now()
	r := reader(t, Options{Socket: s.addr, Table: "web", By: "gpc0", Timeout: 30 * time.Millisecond})
	if _, err := r.Read(t.Context()); err == nil || time.Since(began) > timed.Bound(5*time.Second) {
		t.Errorf("%v after %s, want a time-out", err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	r = reader(t, Options{Socket: s.addr, Table: "web", By: "gpc0", Timeout: time.Minute})
	if _, err := r.Read(ctx); err != context.DeadlineExceeded {
		t.Errorf("%v, want the context's end", err)
	}
}

func TestOptionsThatAreNone(t *testing.T) {
	good := Options{Socket: "/sock", Table: "web"}
	for _, edit := range []func(*Options){
		func(o *Options) { o.Socket = "" },
		func(o *Options) { o.Table = "" },
		func(o *Options) { o.Table = "web; shutdown frontend web" },
		func(o *Options) { o.Table = "web\nhelp" },
		func(o *Options) { o.By = "gpc0 gt 0 data.x" },
		func(o *Options) { o.Top = -1 },
		func(o *Options) { o.Top = MaxTop + 1 },
		func(o *Options) { o.Min = -1 },
		func(o *Options) { o.Timeout = -1 },
	} {
		o := good
		edit(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%+v: want an error", o)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestForms(t *testing.T) {
	r := &Ranking{Table: "web", Type: "ip", Size: 100, Used: 7, By: "http_req_rate", Entries: []Entry{
		{Rank: 1, Key: "10.0.0.1", Value: 12, Expires: Seconds(9500 * time.Millisecond), Data: []Datum{{"gpc0", 0, 3}, {"http_req_rate", Seconds(10 * time.Second), 12}}},
	}}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := "table web, type ip: 7 of 100 entries\nrank  key       http_req_rate/10s  gpc0\n1     10.0.0.1  12                 3\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	got, err := json.Marshal(r)
	want = `{"table":"web","type":"ip","size":100,"used":7,"by":"http_req_rate","entries":[{"rank":1,"key":"10.0.0.1","value":12,` +
		`"expires":9.5,"data":[{"name":"gpc0","period":0,"value":3},{"name":"http_req_rate","period":10,"value":12}]}]}`
	if err != nil || string(got) != want {
		t.Errorf("JSON: %v\n got %s\nwant %s", err, got, want)
	}
	text.Reset()
	if err := ranking(table{name: "web", kind: "ip", size: 1}, "", nil).WriteText(&text); err != nil || !strings.Contains(text.String(), "nothing to rank") {
		t.Errorf("empty: %q, %v", text.String(), err)
	}
}
