package accesslog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// samples are lines of every format.
var samples = []string{
	`203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=1&c HTTP/1.1" 200 2326 "-" "Mozilla/5.0 (X11)"`,
	`h.example 2001:db8::1 - frank [10/Oct/2000:13:55:36 +0000] "POST /login\x22 HTTP/2.0" 401 - "http://a/\"b\"" "-"`,
	`127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "\x16\x03" 400 157 "-" "-" "1.2.3.4"`,
	`Feb  6 12:14:14 h haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] in~ b/s 10/0/30/69/+109 200 +2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /i#22 HTTP/1.1"`,
	`h2 2018-07-02T22:23:00.186641Z app/x [2001:db8::7]:2817 10.0.0.1:80 0.0 0.0 0.0 200 200 34 366 "GET https://e.com:443/p?q HTTP/2.0" "c" - - a "R" "w" "a" 0 2018-07-02T22:22:48.364000Z "f" "-"`,
	`192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "-" 7 "web" "http://10.0.0.2:80" 42ms`,
	`[2016-04-15T20:17:00.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "198.51.100.9, 10.0.35.28" "n" "c" "l" "tcp://10.0.2.1:80"`,
	`{"ts":1646861401.52,"request":{"remote_ip":"10.0.0.9","client_ip":"::1","method":"GET","host":"h","uri":"/\u00e9","headers":{"A":["b","\ud83d\ude00"]}},"duration":5e-1,"status":200}`,
	`{"httpRequest":{"latency":"0.123s","remoteIp":"203.0.113.7","requestMethod":"GET","requestUrl":"https://e.com/a?b","status":404},"timestamp":"2020-01-02T03:04:05.678901Z"}`,
	`{"ClientHost":"192.0.2.1","DownstreamStatus":200,"Duration":1234567,"RequestHost":"h","RequestMethod":"GET","RequestPath":"/?q","StartUTC":"2020-01-02T03:04:05Z"}`,
	`{"start_time":"2020-01-02T03:04:05.678Z","method":"GET","path":"/","authority":"a","response_code":200,"duration":7,"x_forwarded_for":"1.2.3.4","downstream_remote_address":"10.0.0.1:555"}`,
}

// No line makes a parser fail otherwise than by an error, and what is parsed makes sense.
func FuzzFormats(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	var parsers []*Parser
	for _, name := range append(Names(), `{client}|{start}|{duration_us}|{method}|{url}|{header:A}`) {
		format, err := Lookup(name)
		if err != nil {
			f.Fatal(err)
		}
		parsers = append(parsers, NewParser(format, time.FixedZone("", 3600)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range parsers {
			var l Line
			if p.Parse(text, &l) != nil {
				continue
			}
			if l.Method == "" || l.Path == "" || strings.Contains(l.Path, "?") || l.Took < Unknown || l.Status < 0 || l.Status > 999 || l.Client.Zone() != "" {
				t.Errorf("%s: %q: %+v", p.format.Name, text, l)
			}
			var again Line
			if err := p.Parse(text, &again); err != nil || again.At != l.At || again.Path != l.Path {
				t.Errorf("%s: %q: read again: %+v, %v; first %+v", p.format.Name, text, again, err, l)
			}
		}
	})
}

// The reader of JSON takes what encoding/json takes and refuses what it refuses, and finds the same text.
func FuzzObject(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	for _, s := range []string{`{"host":"a\tb\ud800"}`, `{"host":01}`, `{"host":[1,{"a":null}],"b":-0.5e+3}`, `{"host":"x",}`, ` {} `, `{"host":tru}`} {
		f.Add(s)
	}
	o, _, err := parseObject("host=host method=method path=path client=client time=time")
	if err != nil {
		f.Fatal(err)
	}
	o.root.below["client"].field, o.root.below["time"].field, o.root.below["path"].field = skip, skip, skip
	f.Fuzz(func(t *testing.T, text string) {
		var s scratch
		err := o.read(text, &s)
		var want map[string]json.RawMessage
		valid := json.Unmarshal([]byte(text), &want) == nil && want != nil
		if err == errDepth {
			return
		}
		if (err == nil) != valid {
			t.Fatalf("%q: got %v, and valid is %v", text, err, valid)
		}
		if !valid || !utf8.ValidString(text) {
			return
		}
		if folded := strings.Count(strings.ToLower(text), `host`); folded != 1 {
			return // encoding/json takes HOST for host, and of two the last
		}
		var host struct{ Host string }
		if json.Unmarshal([]byte(text), &host) == nil && host.Host != "-" && strings.Contains(text, `"host"`) && want["host"] != nil && want["host"][0] == '"' && s.host != host.Host {
			t.Errorf("%q: host %q, want %q", text, s.host, host.Host)
		}
	})
}

// A time is read as the time package reads it.
func FuzzClock(f *testing.F) {
	for _, s := range []string{"10/Oct/2000:13:55:36 -0700", "06/Feb/2009:12:14:14.655", "2018-07-02T22:23:00.186641Z", "2024-07-01 12:00:00,5", "1700000000.25", "1700000000123", "31/Feb/2001:00:00:60"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := clock{}
		got, err := c.read(text)
		if want, bad := time.Parse("02/Jan/2006:15:04:05 -0700", text); bad == nil && want.Year() >= 1970 && want.Year() < 2262 && text[len(text)-5] != ' ' {
			if err == nil && got != want.UnixNano() {
				t.Errorf("%q: %d, want %d", text, got, want.UnixNano())
			}
		}
		if again, err2 := c.read(text); again != got || (err == nil) != (err2 == nil) {
			t.Errorf("%q: read again %d, %v", text, again, err2)
		}
	})
}

// A pattern of the command line compiles or says why not, and then reads anything.
func FuzzLookup(f *testing.F) {
	for i := range rows {
		f.Add(rows[i].pattern, samples[0])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		format, err := Lookup(pattern)
		if err != nil {
			return
		}
		var l Line
		_ = NewParser(format, nil).Parse(text, &l) // whatever it says
		Detect(text)
	})
}
