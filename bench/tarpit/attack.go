package tarpit

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	attackers = 64                     // addresses that attack
	arrivals  = 400                    // new connections a second, where the attack does not wait
	innocent  = "127.0.0.2"            // the address of who asks for something else
	pause     = 200 * time.Millisecond // between its requests
	patience  = time.Second            // of its
)

// address is of the i-th attack. All of 127.0.0.0/8 is this machine.
func address(i int) string { return fmt.Sprintf("127.0.1.%d", 1+i%attackers) }

// call sends one request on a new connection from an address, and returns the answer's status.
func call(ctx context.Context, from, to, path string) (status string, err error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n", path); err != nil {
		return "", err
	}
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, line); err != nil {
		return "", err
	}
	return string(line[len(line)-3:]), nil
}

// An outcome is what an attack did.
type outcome struct {
	sent     int
	asked    int       // by the innocent
	waits    []float64 // ms, of its that were answered
	seconds  float64
	statuses map[string]int // answers to the attack
}

// An attack is asked of a server until the context ends. It tells every answer.
type attack func(ctx context.Context, to string, answered func(status string)) (sent int)

// flood opens connections at a steady rate, whatever becomes of those before.
func flood(ctx context.Context, to string, answered func(string)) int {
	var under sync.WaitGroup
	defer under.Wait()
	began := time.Now()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return i
		case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / arrivals))):
		}
		under.Go(func() { ask(ctx, i, to, answered) })
	}
}

// scrape has each address ask again as soon as it is answered.
func scrape(ctx context.Context, to string, answered func(string)) int {
	var sent atomic.Int64
	var scrapers sync.WaitGroup
	for i := range attackers {
		scrapers.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				ask(ctx, i, to, answered)
			}
		})
	}
	scrapers.Wait()
	return int(sent.Load())
}

// ask is one request of the attack. One that is cut off by the end has no answer.
func ask(ctx context.Context, i int, to string, answered func(string)) {
	if status, err := call(ctx, address(i), to, "/attacked"); err == nil {
		answered(status)
	}
}

// run attacks for so long, beside somebody who has nothing to do with it.
func run(a attack, to string, long time.Duration) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	o := outcome{statuses: map[string]int{}}
	var beside sync.WaitGroup
	beside.Go(func() { o.asked, o.waits = bystand(ctx, to) })
	var mu sync.Mutex
	began := time.Now()
	o.sent = a(ctx, to, func(status string) {
		mu.Lock()
		defer mu.Unlock()
		o.statuses[status]++
	})
	o.seconds = time.Since(began).Seconds()
	beside.Wait()
	slices.Sort(o.waits)
	return o
}

// bystand asks a few times a second. It returns how often, and the milliseconds of each answer that was 200 in time.
func bystand(ctx context.Context, to string) (asked int, waits []float64) {
	for ctx.Err() == nil {
		mine, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		status, err := call(mine, innocent, to, "/")
		cancel()
		asked++
		if err == nil && status == "200" {
			waits = append(waits, float64(time.Since(began).Microseconds())/1000)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return asked, waits
}
