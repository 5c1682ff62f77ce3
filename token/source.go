package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxDocument is the longest key set, in bytes.
const maxDocument = 1 << 20

// lookEvery is how often a file is looked at.
const lookEvery = time.Second

// A file is a key set on disk.
type file struct {
	name    string
	changed time.Time
	size    int64
}

// fetch reads the file if it changed since it was good.
func (f *file) fetch(context.Context) (*set, time.Duration, error) {
	about, err := os.Stat(f.name)
	if err != nil {
		return nil, lookEvery, err
	}
	if !about.Mode().IsRegular() {
		return nil, lookEvery, fmt.Errorf("%s: not a regular file", f.name)
	}
	if about.ModTime().Equal(f.changed) && about.Size() == f.size {
		return nil, lookEvery, nil
	}
	opened, err := os.Open(f.name)
	if err != nil {
		return nil, lookEvery, err
	}
	defer opened.Close()
	s, err := readSet(opened)
	if err != nil {
		return nil, lookEvery, fmt.Errorf("%s: %w", f.name, err)
	}
	f.changed, f.size = about.ModTime(), about.Size()
	return s, lookEvery, nil
}

// readSet reads a key set of at most maxDocument bytes.
func readSet(r io.Reader) (*set, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxDocument:
		return nil, fmt.Errorf("longer than %d bytes", maxDocument)
	}
	return parseSet(text)
}

// A remote is a key set behind a URL.
type remote struct {
	url    string
	client http.Client
	etag   string // of what was fetched last
}

const (
	fetchTime  = 10 * time.Second // for a whole fetch
	leastFresh = time.Minute
	mostFresh  = 24 * time.Hour
	usualFresh = 15 * time.Minute
)

func newRemote(url string) *remote {
	return &remote{url: url, client: http.Client{
		Timeout:       fetchTime,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true},
		CheckRedirect: follow,
	}}
}

// follow lets a fetch be sent elsewhere, but not out of TLS.
func follow(next *http.Request, before []*http.Request) error {
	if len(before) > 3 {
		return errors.New("sent elsewhere more than 3 times")
	}
	if before[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return errors.New("sent from https to " + next.URL.Scheme)
	}
	return nil
}

// fetch asks for the document unless it is as it was, and returns for how long it is fresh.
func (r *remote) fetch(ctx context.Context) (*set, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	if r.etag != "" {
		req.Header.Set("If-None-Match", r.etag)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, 0, withoutURL(err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusNotModified:
		return nil, fresh(res.Header), nil
	case http.StatusOK:
	default:
		return nil, 0, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	s, err := readSet(res.Body)
	if err != nil {
		return nil, 0, withoutURL(err)
	}
	r.etag = res.Header.Get("ETag")
	return s, fresh(res.Header), nil
}

// withoutURL returns why a fetch failed; whence is told beside it.
func withoutURL(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// fresh returns how long an answer may be used (RFC 9111, section 4.2), within bounds: a set that is never fetched
// again would keep a key that was withdrawn, and one that is fetched all the time is a load for its server.
func fresh(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(h["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return leastFresh
		case "max-age":
			if age, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				spent, _ := strconv.ParseUint(h.Get("Age"), 10, 31) // 0 if it is not said
				left := time.Duration(age-min(spent, age)) * time.Second
				return min(max(left, leastFresh), mostFresh)
			}
		}
	}
	return usualFresh
}
