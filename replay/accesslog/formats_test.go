package accesslog

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func nanosAt(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixNano()
}

// both is a line whose client is who connected.
func both(l Line, at int64, addr string) Line {
	l.At, l.Client, l.From = at, ip(addr), ip(addr)
	return l
}

// Every format reads a line as its writer makes it, and is the one that is found for it.
func TestFormats(t *testing.T) {
	at := func(s string) int64 { return nanosAt(t, s) }
	get := Line{Method: "GET", Path: "/", Status: 200, Took: Unknown}
	with := func(change func(*Line)) Line { l := get; change(&l); return l }
	tests := []struct {
		format, text string
		want         Line
	}{
		{"combined", `203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=1&c HTTP/1.1" 200 2326 "-" "Mozilla/5.0 (X11)"`,
			both(with(func(l *Line) { l.Path, l.Query = "/a", "b=1&c" }), at("2000-10-10T20:55:36Z"), "203.0.113.7")},
		{"combined", `2001:db8::1 - frank smith [10/Oct/2000:13:55:36 +0000] "POST /login HTTP/2.0" 401 - "http://a/\"b\"" "say \x22hi\x22"`,
			both(with(func(l *Line) { l.Method, l.Path, l.Status = "POST", "/login", 401 }), at("2000-10-10T13:55:36Z"), "2001:db8::1")},
		{"combined", `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /a\x22b\x5C HTTP/1.1" 404 0 "-" "-"`,
			both(with(func(l *Line) { l.Path, l.Status = `/a"b\`, 404 }), at("2000-10-10T13:55:36Z"), "203.0.113.7")},
		{"common", `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 2326`, both(get, at("2000-10-10T13:55:36Z"), "203.0.113.7")},
		{"main", `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 2326 "-" "curl" "198.51.100.9, 10.0.0.1"`,
			both(with(func(l *Line) { l.Header = http.Header{"X-Forwarded-For": {"198.51.100.9, 10.0.0.1"}} }), at("2000-10-10T13:55:36Z"), "203.0.113.7")},
		{"main", `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 2326 "-" "curl" "-"`, both(get, at("2000-10-10T13:55:36Z"), "203.0.113.7")},
		{"vcombined", `shop.example.com:443 203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"`,
			both(with(func(l *Line) { l.Host = "shop.example.com:443" }), at("2000-10-10T13:55:36Z"), "203.0.113.7")},
		{"vcommon", `shop.example.com 203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 5`,
			both(with(func(l *Line) { l.Host = "shop.example.com" }), at("2000-10-10T13:55:36Z"), "203.0.113.7")},
		{"haproxy", `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`,
			both(with(func(l *Line) { l.Path, l.Took = "/index.html", 109*time.Millisecond }), at("2009-02-06T12:14:14.655Z"), "10.0.1.2")},
		{"haproxy", `2001:db8::1:33317 [06/Feb/2009:12:14:14.655] http-in~ static/<NOSRV> 0/-1/-1/-1/+0 503 +212 - - SC-- 1/1/1/1/0 0/0 "GET https://a.example/x#22y HTTP/2.0"`,
			both(with(func(l *Line) { l.Path, l.Host, l.Status, l.Took = `/x"y`, "a.example", 503, 0 }), at("2009-02-06T12:14:14.655Z"), "2001:db8::1")},
		{"alb", `h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 [2001:db8::7]:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET https://www.example.com:443/p?q=\"1\" HTTP/2.0" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x:targetgroup/my/73e2 "Root=1-58337262" "www.example.com" "arn:aws:acm:x" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
			both(with(func(l *Line) {
				l.Path, l.Query, l.Host, l.Took = "/p", `q="1"`, "www.example.com:443", 11822641*time.Microsecond
			}),
				at("2018-07-02T22:22:48.364Z"), "2001:db8::7")},
		{"traefik", `192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "-" 7 "web@docker" "http://10.0.0.2:80" 42ms`,
			both(with(func(l *Line) { l.Took = 42 * time.Millisecond }), at("2000-10-10T13:55:36Z"), "192.0.2.1")},
		{"envoy", `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "198.51.100.9, 10.0.35.28" "nsq2http" "cc21d9b0-cf5c" "locations" "tcp://10.0.2.1:80"`,
			Line{At: at("2016-04-15T20:17:00.31Z"), Took: 226 * time.Millisecond, Client: ip("10.0.35.28"), From: ip("10.0.35.28"), Chain: "198.51.100.9, 10.0.35.28", Method: "POST",
				Path: "/api/v1/locations", Host: "locations", Status: 204}},
		{"caddy", `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.9","remote_port":"41342","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"localhost:80","uri":"/caf\u00e9?x=1","headers":{"User-Agent":["curl/7.82.0"],"X-Tenant":["a","b"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"duration":0.5000001,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
			Line{At: at("2022-03-09T21:30:01.0241023Z"), Took: 500000100, Client: ip("203.0.113.7"), From: ip("10.0.0.9"), Method: "GET",
				Path: "/café", Query: "x=1", Host: "localhost:80", Status: 200, Header: http.Header{"User-Agent": {"curl/7.82.0"}, "X-Tenant": {"a", "b"}}}},
		{"gcp", `{"httpRequest":{"latency":"0.123s","remoteIp":"203.0.113.7","requestMethod":"GET","requestUrl":"https://example.com/a?b","status":404},"timestamp":"2020-01-02T03:04:05.678901Z","resource":{"type":"http_load_balancer"}}`,
			both(with(func(l *Line) {
				l.Path, l.Query, l.Host, l.Status, l.Took = "/a", "b", "example.com", 404, 123*time.Millisecond
			}),
				at("2020-01-02T03:04:05.678901Z"), "203.0.113.7")},
		{"traefik-json", `{"ClientAddr":"192.0.2.1:4","ClientHost":"192.0.2.1","DownstreamStatus":200,"Duration":1234567,"RequestHost":"who.localhost","RequestMethod":"GET","RequestPath":"/?q","StartUTC":"2020-01-02T03:04:05.678901234Z","level":"info","time":"2020-01-02T03:04:05Z"}`,
			both(with(func(l *Line) { l.Query, l.Host, l.Took = "q", "who.localhost", 1234567 }), at("2020-01-02T03:04:05.678901234Z"), "192.0.2.1")},
		{"envoy-json", `{"start_time":"2020-01-02T03:04:05.678Z","method":"GET","path":"/","authority":"a.example","response_code":200,"duration":7,"x_forwarded_for":"198.51.100.9","downstream_remote_address":"10.0.0.1:555"}`,
			both(with(func(l *Line) { l.Host, l.Chain, l.Took = "a.example", "198.51.100.9", 7*time.Millisecond }), at("2020-01-02T03:04:05.678Z"), "10.0.0.1")},
	}
	for _, tt := range tests {
		f, err := Lookup(tt.format)
		if err != nil {
			t.Fatal(err)
		}
		var got Line
		if err := NewParser(f, nil).Parse(tt.text, &got); err != nil {
			t.Errorf("%s: %s: %v", tt.format, tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, addresses); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.format, tt.text, diff)
		}
		if found, taken, of := Detect(tt.text + "\n"); found == nil || found.Name != tt.format || taken != 1 || of != 1 {
			t.Errorf("%s: found %+v, %d of %d, for %s", tt.format, found, taken, of, tt.text)
		}
	}
}

// What is about no HTTP request is no fault of the log's, and what is broken says what is wrong.
func TestLinesThatAreNoRequest(t *testing.T) {
	const from, ua = `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] `, ` "-" "-"`
	tests := []struct {
		format, text string
		want         error
	}{
		{"combined", from + `"\x16\x03\x01" 400 157` + ua, ErrNoRequest},
		{"combined", from + `"" 400 0` + ua, ErrNoRequest},
		{"combined", from + `"-" 408 -` + ua, ErrNoRequest},
		{"combined", from + `"GET" 400 0` + ua, ErrNoRequest},
		{"combined", from + `"GET / HTTP/1.1" 200 1`, errShape},
		{"combined", from + `"GET / HTTP/1.1" 2x0 1` + ua, errStatus},
		{"combined", from + `"GET / HTTP/1.1" 200 1k` + ua, errSize},
		{"combined", from + `"GET / HTTP/1.1" 200 1 "-" "never ends`, errShape},
		{"combined", `example.com - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1` + ua, errAddress},
		{"combined", `203.0.113.7 - - [32/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1` + ua, errTime},
		{"combined", `203.0.113.7 - - [10/Okt/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1` + ua, errTime},
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] in in/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`, ErrNoRequest},
		{"haproxy", `<150>Feb  6 12:14:14 h haproxy[1]: SPOE: [weir] <EVENT:on-frontend-http-request> sid=0 st=0`, ErrNoRequest},
		{"haproxy", `Feb  6 12:14:14 h haproxy[1]: Proxy in started.`, errShape},
		{"haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] in s/s 0/0/0/0/0 200 9 - - ---- 1/1/0/0/0 0/0 {cut off before the requ`, errShape},
		{"alb", `http 2018-07-02T22:23:00.186641Z app/x 192.168.131.39:2817 - -1 -1 -1 400 - 0 0 "- http://x:80- " "-" - - - "-" "-" "-" - 2018-07-02T22:22:48.364000Z "-" "-"`, ErrNoRequest},
		{"envoy", `[2016-04-15T20:17:00.310Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`, ErrNoRequest},
		{"caddy", `{"level":"info","ts":1646861401.5,"msg":"serving initial configuration"}`, ErrNoRequest},
		{"caddy", `{"level":"info","ts":1646861401.5,"msg":"cut off`, errJSON},
		{"caddy", `{"ts":"yesterday","request":{"method":"GET","uri":"/","remote_ip":"10.0.0.1"}}`, errTime},
		{"caddy", `{"ts":1,"request":{"method":"GET","uri":"/","remote_ip":"10.0.0.1"}} more`, errJSON},
		{"caddy", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), errDepth},
	}
	for _, tt := range tests {
		f, err := Lookup(tt.format)
		if err != nil {
			t.Fatal(err)
		}
		if err := NewParser(f, nil).Parse(tt.text, new(Line)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %s: got %v, want %v", tt.format, tt.text, err, tt.want)
		}
	}
}

// A custom format names its fields; times without a zone are those of the log's zone.
func TestCustomFormats(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		format, text string
		want         Line
	}{
		{`{client} {time} {duration} {method} {host}{path}`, ``, Line{}},
		{`{client}|{time}|{duration}|{method}|{host}|{path}|{query}|{status}|{header:x-api-key}`,
			`203.0.113.7:4711|1700000000.250|0.100|PUT|a.example|/x|y=1|204|k1`,
			Line{At: 1700000000150000000, Took: 100 * time.Millisecond, Client: ip("203.0.113.7"), From: ip("203.0.113.7"), Method: "PUT", Path: "/x",
				Query: "y=1", Host: "a.example", Status: 204, Header: http.Header{"X-Api-Key": {"k1"}}}},
		{`json:t=start c.ip=client m=method u=path`, `{"t":"2024-07-01 12:00:00","c":{"ip":"::ffff:203.0.113.7"},"m":"GET","u":"http://h/p"}`,
			Line{At: nanosAt(t, "2024-07-01T10:00:00Z"), Took: Unknown, Client: ip("203.0.113.7"), From: ip("203.0.113.7"), Method: "GET", Path: "/p", Host: "h"}},
		{`{client} [{time}] {duration_us} "{request}"`, `203.0.113.7 [01/Jul/2024:12:00:01] 1000000 "GET / HTTP/1.1"`,
			Line{At: nanosAt(t, "2024-07-01T10:00:00Z"), Took: time.Second, Client: ip("203.0.113.7"), From: ip("203.0.113.7"), Method: "GET", Path: "/"}},
	}
	for _, tt := range tests {
		f, err := Lookup(tt.format)
		if tt.text == "" {
			if err == nil || !strings.Contains(err.Error(), "nothing stands between {host} and the next field") {
				t.Errorf("%s: %v", tt.format, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.format, err)
			continue
		}
		var got Line
		if err := NewParser(f, berlin).Parse(tt.text, &got); err != nil {
			t.Errorf("%s: %s: %v", tt.format, tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got, addresses); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.format, tt.text, diff)
		}
	}
}

// A format that cannot be replayed says what it lacks.
func TestFormatsThatLackSomething(t *testing.T) {
	for name, want := range map[string]string{
		"nginx":                               "format nginx: want auto, one of haproxy alb ",
		"{client} {time}":                     "no {request}",
		"{client} {request}":                  "no {time}",
		"{time} {request}":                    "no {client}",
		"{client} {time} {reqest}":            "{reqest} is no field",
		"{client} {time":                      "not closed",
		"json:a=client b=time":                "no {request}",
		"json:a":                              "want MEMBER=FIELD",
		"json:a=clint":                        "{clint} is no field",
		"{client} {time} {header:} {request}": "{header:} is no field",
	} {
		if _, err := Lookup(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// What a format has decides what can be replayed, before a line is read.
func TestWhatFormatsHave(t *testing.T) {
	for name, want := range map[string]Has{
		"combined":   {Status: true},
		"main":       {Status: true, Headers: []string{"X-Forwarded-For"}},
		"haproxy":    {Status: true, Duration: true, Start: true},
		"alb":        {Status: true, Duration: true, Start: true, Host: true},
		"envoy":      {Status: true, Duration: true, Start: true, Host: true},
		"caddy":      {Status: true, Duration: true, Start: true, Host: true, AllHeaders: true},
		"gcp":        {Status: true, Duration: true, Start: true, Host: true},
		"envoy-json": {Status: true, Duration: true, Start: true, Host: true},
	} {
		f, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Has
		got.seen = 0
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Has{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f, _ := Lookup("caddy")
	if f.Has.Header("Cookie") || !f.Has.Header("X-Tenant") {
		t.Error("Caddy blanks cookies, and no other header that is asked for")
	}
}

func BenchmarkCombined(b *testing.B) {
	const text = `203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] "GET /api/v1/users/1234?b=1&c HTTP/1.1" 200 2326 "https://example.com/start" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"`
	f, err := Lookup("combined")
	if err != nil {
		b.Fatal(err)
	}
	p := NewParser(f, nil)
	var l Line
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := p.Parse(text, &l); err != nil {
			b.Fatal(err)
		}
	}
}
