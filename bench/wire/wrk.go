package wire

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

// A load is what one run of wrk did.
type load struct {
	requests, refused int
}

var (
	requestsIn = regexp.MustCompile(`(\d+) requests in`)
	non2xx     = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	broken     = regexp.MustCompile(`Socket errors: .*`)
)

// wrk asks at address for so long.
func wrk(p place, address string, long time.Duration) (load, error) {
	ctx, cancel := context.WithTimeout(context.Background(), long+10*time.Second)
	defer cancel()
	seconds := max(1, int(long.Round(time.Second).Seconds()))
	out, err := p.command(ctx, "wrk", "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%ds", seconds), "http://"+address+"/").CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	return parse(string(out))
}

// parse reads what wrk prints.
func parse(out string) (load, error) {
	m := requestsIn.FindStringSubmatch(out)
	if m == nil {
		return load{}, fmt.Errorf("wrk: no requests: %s", out)
	}
	if e := broken.FindString(out); e != "" {
		return load{}, errors.New("wrk: " + e)
	}
	l := load{}
	l.requests, _ = strconv.Atoi(m[1])
	if m := non2xx.FindStringSubmatch(out); m != nil {
		l.refused, _ = strconv.Atoi(m[1])
	}
	if l.requests == 0 {
		return l, errors.New("wrk: no request was answered")
	}
	return l, nil
}
