package replicas_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A crowd asks on behalf of any client.
type crowd struct {
	t    testing.TB
	http *http.Client
	next atomic.Int64 // of the clients that nobody has been yet

	token atomic.Pointer[string] // that all bear; nil: none
}

func newCrowd(t testing.TB) *crowd {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &crowd{t: t, http: &http.Client{Transport: transport, Timeout: patience}}
}

// fresh returns the address of a client that has not asked yet.
func (c *crowd) fresh() string {
	n := c.next.Add(1)
	return fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
}

// An answer is what became of a request. Status is 0 where there was none.
type answer struct {
	status int
	header http.Header
	took   time.Duration
}

// ask sends one request of a client.
func (c *crowd) ask(url, client string) answer {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		c.t.Error(err)
		return answer{}
	}
	req.Header.Set("X-Forwarded-For", client)
	if token := c.token.Load(); token != nil {
		req.Header.Set("Authorization", "Bearer "+*token)
	}
	began := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Logf("%s: %v", url, err)
		return answer{took: time.Since(began)}
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return answer{res.StatusCode, res.Header, time.Since(began)}
}

// callers is how many requests of a hammer are under way at once.
const callers = 32

// A tally is how many requests were answered with which HTTP status.
type tally map[int]int

// hammer sends n requests of a client in parallel, alternating between urls.
func (c *crowd) hammer(urls []string, path, client string, n int) tally {
	return c.hammerAll(urls, path, []string{client}, n)[client]
}

// hammerAll sends n requests of each client in parallel, alternating between urls and clients.
func (c *crowd) hammerAll(urls []string, path string, clients []string, n int) map[string]tally {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	tallies := map[string]tally{}
	for _, client := range clients {
		tallies[client] = tally{}
	}
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n*len(clients); i = int(next.Add(1)) - 1 {
				client := clients[i%len(clients)]
				a := c.ask(urls[i/len(clients)%len(urls)]+path, client)
				mu.Lock()
				tallies[client][a.status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return tallies
}
