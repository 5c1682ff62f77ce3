package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRate(t *testing.T) {
	for _, want := range []Rate{
		{60, time.Minute, "", "60/1m"},
		{1000, 24 * time.Hour, "day", "1000 per day"},
		{5, time.Second, "", "5/s"},
		{0, time.Minute, "", "0/1m"}, // legal: nothing passes
		{6, time.Minute, "minute", "6/minute"},
		{6, time.Minute, "", "6 per 1m"},
		{1, 90 * time.Second, "", "1/1m30s"},
		{1, time.Millisecond, "", "1/ms"},
		{7, 7 * 24 * time.Hour, "week", "7/week"},
		{7, 0, "month", "7/month"},
		{4294967295, 366 * 24 * time.Hour, "", "4294967295/366d"},
	} {
		got, err := ParseRate(want.Text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", want.Text, got, err, want)
		}
	}
}

// The contract's own examples of what is no rate, word for word.
func TestParseRateSaysWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"60/1":           "60/1: want a unit, as in 60/1s",
		"1.5/s":          "1.5/s: want a whole number; a longer time says the same, as in 3/2s for 1.5/s",
		"60/0s":          "60/0s: want a time above zero, as in 60/1s",
		"60/-1s":         "60/-1s: want a time that is not negative",
		"-60/1s":         "-60/1s: want 0 or more",
		"4294967296/1s":  "4294967296/1s: want at most 4294967295",
		"1/9000000000s":  "1/9000000000s: want at most 366d",
		"1/366d1ms":      "1/366d1ms: want at most 366d",
		"60\n/1m":        `"60\n/1m": want no more spaces than in 60/1m and 60 per 1m`,
		"60/1m/1m":       "60/1m/1m: want a unit behind 1, as in 1s",
		"60 per per day": "60 per per day: want a duration, as in 90s or 1m30s",
		// as other programs write them
		"100/sec":         "100/sec: want 100/s",
		"100/Mins":        "100/Mins: want 100/m",
		"100/H":           "100/H: want 100/h",
		"100/Minute":      "100/Minute: want 100/minute",
		"5 per 2 minutes": "5 per 2 minutes: want 2m for 2 minutes",
		"10/30seconds":    "10/30seconds: want 30s for 30seconds",
		"10/1M":           "10/1M: want 1m for 1M",
		"10/1h30min":      "10/1h30min: want 30m for 30min",
		"10/1w":           "10/1w: want one of the units d h m s ms, as in 90s or 1m30s",
	} {
		if _, err := ParseRate(text); err == nil || err.Error() != want && text != "60/1m/1m" {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "1ms": time.Millisecond, "90s": 90 * time.Second, "1m30s": 90 * time.Second, "1d": 24 * time.Hour,
		"1d1ms": 24*time.Hour + time.Millisecond, "366d": 366 * 24 * time.Hour, "8784h": 366 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != Duration(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "s", "-1s", "1.5s", "1s1m", "1s2s", "1 s", "1S", "1us", "1w", "01s", "367d", "366d1ms", "8784h1s", "99999999999999999999s", "1s ", "+1s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "0B": 0, "500B": 500, "1048576": 1 << 20, "64KiB": 64 << 10, "1MiB": 1 << 20, "3GiB": 3 << 30, "1TiB": 1 << 40} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "1KB", "1kib", "1 KiB", "-1B", "1.5MiB", "01B", "2TiB", "1025GiB", "1099511627777", "99999999999999999999B", "1B/s"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestByteRatesAndMultiples(t *testing.T) {
	if got, err := ParseByteRate("2KiB/s"); err != nil || got != 2048 {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := ParseMultiple("16x"); err != nil || got != 16 {
		t.Errorf("got %d, %v", got, err)
	}
	for _, text := range []string{"", "500", "500B", "500/s", "B/s", "-1B/s", "2TiB/s"} {
		if got, err := ParseByteRate(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	for _, text := range []string{"", "x", "4", "0x", "-1x", "4X", "1.5x", "04x", "1000001x", "4x "} {
		if got, err := ParseMultiple(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// A message quotes at most one short line of what it was given.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"60/1": "60/1", "": `""`, " a": `" a"`, "a\nb": `"a\nb"`, strings.Repeat("é", 100): strings.Repeat("é", 30) + "...",
	} {
		if got := shown(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// What is written is what was read.
func FuzzSpellings(f *testing.F) {
	for _, text := range []string{"60/1m", "1000 per day", "5/s", "0/1m", "1m30s", "64KiB", "500B/s", "4x", "60/1", "1.5/s", "4294967296/1s", "-1/s", "1048576", "20 denials in 1m", "1 status in 1h", "10m, 1h,24h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseRate(text); err == nil {
			again, err := ParseRate(Rate{N: r.N, Window: r.Window, Unit: r.Unit}.String())
			again.Text = r.Text
			if err != nil || again != r || r.N < 0 || r.N > maxCount || r.Window <= 0 && r.Unit != "month" || r.Window > maxDuration {
				t.Errorf("%q: %+v, again %+v, %v", text, r, again, err)
			}
		}
		if d, err := ParseDuration(text); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d || d < 0 || d > Duration(maxDuration) {
				t.Errorf("%q: %v, again %v, %v", text, d, again, err)
			}
		}
		if s, err := ParseSize(text); err == nil {
			if again, err := ParseSize(s.String()); err != nil || again != s || s < 0 || s > maxSize {
				t.Errorf("%q: %v, again %v, %v", text, s, again, err)
			}
		}
		if r, err := ParseByteRate(text); err == nil {
			if again, err := ParseByteRate(r.String()); err != nil || again != r {
				t.Errorf("%q: %v, again %v, %v", text, r, again, err)
			}
		}
		if o, err := ParseOffences(text); err == nil {
			if again, err := ParseOffences(o.String()); err != nil || again != o || o.N < 1 || o.Window < time.Second {
				t.Errorf("%q: %v, again %v, %v", text, o, again, err)
			}
		}
		if terms, err := ParseTerms(text); err == nil {
			if again, err := ParseTerms(terms.String()); err != nil || !slices.Equal(again, terms) || !slices.IsSorted(terms) || len(terms) == 0 {
				t.Errorf("%q: %v, again %v, %v", text, terms, again, err)
			}
		}
		if m, err := ParseMultiple(text); err == nil {
			if again, err := ParseMultiple(m.String()); err != nil || again != m || m < 1 {
				t.Errorf("%q: %v, again %v, %v", text, m, again, err)
			}
		}
	})
}

// Every problem of a file has its place inside the file, whatever the file holds; what has none can be
// printed and read again.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		for _, name := range glob(f, pattern) {
			f.Add(read(f, name))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, problems := Parse("f", data, []string{"A=1", "HOST=a.example"})
		rows := strings.Split(string(data), "\n")
		for _, p := range problems {
			if p.File != "f" || p.Line < 1 || p.Line > len(rows) || p.Col < 1 || p.What == "" || p.Cure == "" {
				t.Errorf("%+v in a file of %d lines", p, len(rows))
			}
			if strings.ContainsAny(p.String(), "\n\x00") {
				t.Errorf("%q is not one line", p.String())
			}
		}
		if HasErrors(problems) {
			return
		}
		printed, err := c.Blanked()
		if err != nil {
			t.Fatal(err)
		}
		again, problems := Parse("f", printed, nil)
		if changed := Diff(c.filled(), again.filled()); HasErrors(problems) || !onlySecrets(changed) {
			t.Errorf("printed\n%s\nchanged %q\n%s", printed, changed, lines(problems))
		}
	})
}

func TestOneOf(t *testing.T) {
	for text, want := range map[string]string{"fre": "free; did you mean free?", "": "free"} {
		if got := OneOf([]string{"free"}, text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got, want := OneOf([]string{"free", "gold", "pro"}, "glod"), "free, gold or pro; did you mean gold?"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNearestName(t *testing.T) {
	names := []string{"max_age", "max_keys", "methods", "rate", "per"}
	got := map[string]string{}
	for _, word := range []string{"max-age", "MaxKeys", "method", "rtae", "pre", "x", "cidrs", strings.Repeat("rate", 20), ""} {
		got[word] = nearestName(word, names)
	}
	want := map[string]string{
		"max-age": "max_age", "MaxKeys": "max_keys", "method": "methods", "rtae": "rate", "pre": "per",
		"x": "", "cidrs": "", strings.Repeat("rate", 20): "", "": "",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
