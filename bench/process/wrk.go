package process

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// connections are kept alive and always busy.
const connections = 64

// A Load is what one run of wrk did.
type Load struct {
	Requests, Refused int
}

var (
	requestsIn = regexp.MustCompile(`(\d+) requests in`)
	non2xx     = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	broken     = regexp.MustCompile(`Socket errors: .*`)
)

// Wrk asks at address for so long.
func Wrk(p Place, address string, long time.Duration) (Load, error) {
	ctx, cancel := context.WithTimeout(context.Background(), long+10*time.Second)
	defer cancel()
	seconds := max(1, int(long.Round(time.Second).Seconds()))
	out, err := p.Command(ctx, "wrk", "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%ds", seconds), "http://"+address+"/").CombinedOutput()
	if err != nil {
		return Load{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	return parse(string(out))
}

// parse reads what wrk prints.
func parse(out string) (Load, error) {
	m := requestsIn.FindStringSubmatch(out)
	if m == nil {
		return Load{}, fmt.Errorf("wrk: no requests: %s", out)
	}
	if e := broken.FindString(out); e != "" {
		return Load{}, errors.New("wrk: " + e)
	}
	l := Load{}
	l.Requests, _ = strconv.Atoi(m[1])
	if m := non2xx.FindStringSubmatch(out); m != nil {
		l.Refused, _ = strconv.Atoi(m[1])
	}
	if l.Requests == 0 {
		return l, errors.New("wrk: no request was answered")
	}
	return l, nil
}
