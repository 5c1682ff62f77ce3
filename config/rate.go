package config

import (
	"fmt"
	"strings"
	"time"
)

// ParseRate reads a rate: N/TIME or N per TIME, where TIME is a duration, a unit alone, or one of the
// words second minute hour day week month. N is at most 4,294,967,295 and may be 0; the time is above
// zero and at most 366d.
func ParseRate(text string) (Rate, error) {
	count, window, ok := strings.Cut(text, " per ")
	if !ok {
		count, window, ok = strings.Cut(text, "/")
	}
	if !ok {
		return Rate{}, misspelt(text, "want "+wantedRate(text))
	}
	n, want := parseCount(count, maxCount)
	if want != "" {
		return Rate{}, misspelt(text, wantCount(count, want))
	}
	r := Rate{N: n, Text: text}
	if r.Window, r.Unit, want = parseWindow(window); want != "" {
		return Rate{}, misspelt(text, strings.ReplaceAll(want, "N/", count+"/"))
	}
	return r, nil
}

func wantedRate(text string) string {
	if digits, rest := cutDigits(text); digits != "" && rest == "" {
		return "a time, as in " + digits + "/1m"
	}
	return "N/DURATION or N per DURATION, as in 60/1m"
}

// wantCount says what to write in place of count, which is not the number that a rate begins with.
func wantCount(count, want string) string {
	switch digits, rest := cutDigits(count); {
	case strings.TrimSpace(count) != count:
		return "want no more spaces than in 60/1m and 60 per 1m"
	case digits != "" && strings.HasPrefix(rest, "."):
		return "want a whole number; a longer time says the same, as in 3/2s for 1.5/s"
	}
	return want
}

// parseWindow reads what stands behind the slash of a rate. In want, N stands for the rate's number.
func parseWindow(text string) (window time.Duration, word, want string) {
	if u, ok := find(timeWords[:], text); ok {
		return time.Duration(u.size), u.name, ""
	}
	if u, ok := find(timeUnits[:], text); ok {
		return time.Duration(u.size), "", ""
	}
	if u, ok := find(timeWords[:], strings.ToLower(strings.TrimSuffix(text, "s"))); ok {
		return 0, "", "want N/" + u.name
	}
	if unit := usualUnit(text); unit != "" {
		return 0, "", "want N/" + unit
	}
	if strings.TrimSpace(text) != text {
		return 0, "", "want no more spaces than in 60/1m and 60 per 1m"
	}
	window, want = parseDuration(text)
	switch digits, rest := cutDigits(text); {
	case digits != "" && rest == "":
		want = "want a unit, as in N/" + digits + "s"
	case want == "" && window == 0:
		want = "want a time above zero, as in N/1s"
	case text == "":
		want = "want a time, as in N/1m"
	}
	return window, "", want
}

// String returns the rate as it was written, or as it would be.
func (r Rate) String() string {
	switch {
	case r.Text != "":
		return r.Text
	case r.Unit != "":
		return fmt.Sprintf("%d/%s", r.N, r.Unit)
	}
	return fmt.Sprintf("%d/%s", r.N, Duration(r.Window))
}

// MarshalText returns the rate as written in the file.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a rate as written in the file.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}
