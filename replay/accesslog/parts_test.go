package accesslog

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// A time is known by its shape; one without a zone is in the log's, and what is none is no time.
func TestTimes(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	tests := []struct {
		text string
		zone *time.Location
		want string // empty: no time
	}{
		{"10/Oct/2000:13:55:36 -0700", nil, "2000-10-10T20:55:36Z"},
		{"10/Oct/2000:13:55:36 +0530", berlin, "2000-10-10T08:25:36Z"},
		{"10/Oct/2000:13:55:36.1234567899 +0000", nil, "2000-10-10T13:55:36.123456789Z"},
		{"06/Feb/2009:12:14:14.655", nil, "2009-02-06T12:14:14.655Z"},
		{"06/Feb/2009:12:14:14.655", berlin, "2009-02-06T11:14:14.655Z"},
		{"06/Jul/2009:12:14:14.655", berlin, "2009-07-06T10:14:14.655Z"},
		{"2018-07-02T22:23:00.186641Z", berlin, "2018-07-02T22:23:00.186641Z"},
		{"2018-07-02T22:23:00+02:00", nil, "2018-07-02T20:23:00Z"},
		{"2018-07-02 22:23:00,5", berlin, "2018-07-02T20:23:00.5Z"},
		{"29/Feb/2024:00:00:00 +0000", nil, "2024-02-29T00:00:00Z"},
		{"0", nil, "1970-01-01T00:00:00Z"},
		{"1700000000", nil, "2023-11-14T22:13:20Z"},
		{"1700000000.000000001", nil, "2023-11-14T22:13:20.000000001Z"},
		{"1700000000123", nil, "2023-11-14T22:13:20.123Z"},
		{"1700000000123456", nil, "2023-11-14T22:13:20.123456Z"},
		{"1700000000123456789", nil, "2023-11-14T22:13:20.123456789Z"},
		{"9999999999999999999", nil, ""},
		{"17000000001", nil, ""},
		{"-1", nil, ""},
		{"1700000000.1.2", nil, ""},
		{"yesterday", nil, ""},
		{"00/Oct/2000:13:55:36 +0000", nil, ""},
		{"10/oct/2000:13:55:36 +0000", nil, ""},
		{"10/anF/2000:13:55:36 +0000", nil, ""},
		{"10/Oct/2000:24:00:00 +0000", nil, ""},
		{"10/Oct/2000:13:60:00 +0000", nil, ""},
		{"10/Oct/2000:13:55:36 0000", nil, ""},
		{"10/Oct/2000:13:55:36 +000", nil, ""},
		{"10/Oct/2000:13:55:36 +2400", nil, ""},
		{"10/Oct/2000:13:55:36. +0000", nil, ""},
		{"10/Oct/1969:13:55:36 +0000", nil, ""},
		{"10/Oct/2262:13:55:36 +0000", nil, ""},
		{"2018-13-02T22:23:00Z", nil, ""},
		{"2018-07-02X22:23:00Z", nil, ""},
	}
	for _, tt := range tests {
		c := clock{zone: tt.zone}
		got, err := c.read(tt.text)
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%s: is taken for %s", tt.text, time.Unix(0, got).UTC())
		case tt.want != "" && (err != nil || got != nanosAt(t, tt.want)):
			t.Errorf("%s: %s, %v, want %s", tt.text, time.Unix(0, got).UTC(), err, tt.want)
		}
	}
}

// The second that was read last is not read again, and is never taken for another one.
func TestTheClockRemembers(t *testing.T) {
	c := clock{}
	for _, step := range []struct{ text, want string }{
		{"10/Oct/2000:13:55:36 +0000", "2000-10-10T13:55:36Z"},
		{"10/Oct/2000:13:55:36.5 +0000", "2000-10-10T13:55:36.5Z"},
		{"10/Oct/2000:13:55:36 +0100", "2000-10-10T12:55:36Z"},
		{"10/Oct/2000:13:55:36", "2000-10-10T13:55:36Z"},
		{"10/Oct/2000:13:55:37", "2000-10-10T13:55:37Z"},
	} {
		if got, err := c.read(step.text); err != nil || got != nanosAt(t, step.want) {
			t.Errorf("%s: %s, %v", step.text, time.Unix(0, got).UTC(), err)
		}
	}
	if _, err := c.read("10/Oct/2000:13:55:99"); err == nil {
		t.Error("a second 99 is taken")
	}
	if got, err := c.read("10/Oct/2000:13:55:37"); err != nil || got != nanosAt(t, "2000-10-10T13:55:37Z") {
		t.Errorf("what follows a bad time: %d, %v", got, err)
	}
}

// A duration is a decimal number of its unit; more than a year, a sign or a word are none.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "0.001": time.Millisecond, "12.3456789012": 12*time.Second + 345678901, "5e-1": 500 * time.Millisecond, "1E+1": 10 * time.Second,
		"": -1, "-1": -1, "1s": -1, "one": -1, "1.2.3": -1, "NaN": -1, "1e99": -1, "+1": -1, "99999999999999999999": -1,
	} {
		got, err := duration(text, time.Second)
		if want < 0 != (err != nil) || err == nil && got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

// An address may bear a port, brackets or a zone; a unix socket has none, and a name is no address.
func TestAddresses(t *testing.T) {
	tests := []struct {
		text      string
		lastColon bool
		want      string // "none" is no address; empty is a fault
	}{
		{"203.0.113.7", false, "203.0.113.7"},
		{"203.0.113.7:4711", false, "203.0.113.7"},
		{"203.0.113.7:4711", true, "203.0.113.7"},
		{"2001:db8::7", false, "2001:db8::7"},
		{"2001:db8::7:4711", true, "2001:db8::7"},
		{"[2001:db8::7]:4711", false, "2001:db8::7"},
		{"[2001:db8::7]", false, "2001:db8::7"},
		{"::ffff:203.0.113.7", false, "203.0.113.7"},
		{"fe80::1%eth0", false, "fe80::1"},
		{"unix:", false, "none"},
		{"unix:1", true, "none"},
		{"example.com", false, ""},
		{"203.0.113", false, ""},
		{":80", false, ""},
		{"[]:80", false, ""},
		{"203.0.113.07", false, ""},
	}
	for _, tt := range tests {
		got, err := address(tt.text, tt.lastColon)
		want, _ := netip.ParseAddr(tt.want)
		if (err != nil) != (tt.want == "") || got != want {
			t.Errorf("%s: %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

// What was escaped is as it was; what only looks like an escape stays.
func TestEscapes(t *testing.T) {
	for _, tt := range []struct {
		e          escape
		text, want string
	}{
		{plain, `a\x22#22`, `a\x22#22`},
		{backslash, `a\x22b\"c\\d\te`, "a\"b\"c\\d\te"},
		{backslash, `\xzz\x2`, `xzzx2`},
		{backslash, `end\`, `end\`},
		{backslash, `#22`, `#22`},
		{hash, `a#22b#5Cc`, `a"b\c`},
		{hash, `#zz#2`, `#zz#2`},
		{hash, `\x22`, `\x22`},
	} {
		if got := tt.e.undo(tt.text); got != tt.want {
			t.Errorf("%d: %s: %q, want %q", tt.e, tt.text, got, tt.want)
		}
	}
}

// A quote ends a field only if it is not escaped, and what follows it is what the format has there.
func TestQuotes(t *testing.T) {
	for _, tt := range []struct {
		text, until string
		want        int
	}{
		{`abc"`, `"`, 3},
		{`a\"c"`, `"`, 4},
		{`a\\" `, `" `, 3},
		{`a\\\" "`, `"`, 6},
		{`a"b" x`, `" `, 3},
		{`a" b`, `" "`, -1},
		{`a" "b" "`, `" "`, 1},
		{`abc`, `"`, -1},
		{`a"b`, `"`, -1},
		{``, `"`, -1},
	} {
		if got := endOfQuoted(tt.text, tt.until); got != tt.want {
			t.Errorf("%s until %s: %d, want %d", tt.text, tt.until, got, tt.want)
		}
	}
}

// A request line is a method, a target and mostly a protocol; a target may be a URL, or hold blanks.
func TestRequestLines(t *testing.T) {
	for line, want := range map[string]Line{
		"GET / HTTP/1.1":                  {Method: "GET", Path: "/"},
		"GET /":                           {Method: "GET", Path: "/"},
		"GET /a?b?c HTTP/1.0":             {Method: "GET", Path: "/a", Query: "b?c"},
		"GET /a b HTTP/1.1":               {Method: "GET", Path: "/a b"},
		"M-SEARCH * HTTP/1.1":             {Method: "M-SEARCH", Path: "*"},
		"GET https://h:8443/a?b HTTP/2.0": {Method: "GET", Path: "/a", Query: "b", Host: "h:8443"},
		"GET http://h HTTP/1.1":           {Method: "GET", Path: "/", Host: "h"},
		"GET http://h?b HTTP/1.1":         {Method: "GET", Path: "/", Query: "b", Host: "h"},
		"GET /http://h/ HTTP/1.1":         {Method: "GET", Path: "/http://h/"},
		"CONNECT h:443 HTTP/1.1":          {Method: "CONNECT", Path: "h:443"},
		"":                                {},
		"-":                               {},
		"GET":                             {},
		"GET  HTTP/1.1":                   {},
		"\x16\x03\x01\x00 x":              {},
		"<BADREQ>":                        {},
	} {
		s := scratch{started: true, took: Unknown}
		err := s.set(request, line)
		var got Line
		if err == nil {
			err = s.finish(&got)
		}
		if want.Method == "" {
			if line != "" && !errors.Is(err, ErrNoRequest) {
				t.Errorf("%q: %v", line, err)
			}
			continue
		}
		if err != nil || got.Method != want.Method || got.Path != want.Path || got.Query != want.Query || got.Host != want.Host {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
}

// When a request began follows from what the log has: the start, else the end less the duration, else the
// end; and how long it took, from both times.
func TestBeginnings(t *testing.T) {
	const at = int64(1_000_000_000_000)
	tests := []struct {
		s        scratch
		at, took int64
	}{
		{scratch{started: true, start: at, took: Unknown}, at, -1},
		{scratch{started: true, start: at, took: 7}, at, 7},
		{scratch{ended: true, end: at, took: Unknown}, at, -1},
		{scratch{ended: true, end: at, took: 7}, at - 7, 7},
		{scratch{ended: true, end: at, took: 0}, at, 0},
		{scratch{started: true, start: at, ended: true, end: at + 9, took: Unknown}, at, 9},
		{scratch{started: true, start: at, ended: true, end: at - 9, took: Unknown}, at, -1},
	}
	for i, tt := range tests {
		if at, took, ok := tt.s.times(); !ok || at != tt.at || int64(took) != tt.took {
			t.Errorf("%d: %d %d %v, want %d %d", i, at, took, ok, tt.at, tt.took)
		}
	}
	if _, _, ok := (&scratch{took: 7}).times(); ok {
		t.Error("no time is a time")
	}
}

// The format of most lines is found though some are broken or about no request; with less than half,
// none is.
func TestDetect(t *testing.T) {
	good := `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	tls := `203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "\x16\x03" 400 1` + "\n"
	for _, tt := range []struct {
		head      string
		name      string
		taken, of int
	}{
		{good + tls + "broken\n" + good, "common", 2, 4},
		{good + tls + tls, "", 1, 3},
		{"", "", 0, 0},
		{"\n\n", "", 0, 0},
		{good + good + good[:20], "common", 2, 2},
		{good[:len(good)-1], "common", 1, 1},
	} {
		f, taken, of := Detect(tt.head)
		name := ""
		if f != nil {
			name = f.Name
		}
		if name != tt.name || taken != tt.taken || of != tt.of {
			t.Errorf("%q: %s, %d of %d; want %s, %d of %d", tt.head, name, taken, of, tt.name, tt.taken, tt.of)
		}
	}
}
