package soak_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A kind is what became of a request, as the configuration explains it.
type kind string

const (
	passed    kind = "200"
	limited   kind = "429"
	attacked  kind = "403 attack"
	banned    kind = "403 ban"
	keyless   kind = "401"
	uncounted kind = "503 store"     // where the rule says deny, and Redis did not answer
	saturated kind = "503 firewall"  // no place to be inspected was free
	leftAsk   kind = "left asking"   // the client went in the middle of its request
	leftTold  kind = "left answered" // the client went in the middle of the answer
)

// kinds tells them apart by what a refusal says.
var kinds = []struct {
	status int
	says   string
	kind   kind
}{
	{200, "", passed},
	{429, "", limited},
	{401, "", keyless},
	{403, "looks like an attack", attacked},
	{403, "client is banned", banned},
	{503, "cannot be counted at the moment", uncounted},
	{503, "cannot be inspected at the moment", saturated},
}

// kindOf is the kind of an answer. One that nothing explains is a kind of its own.
func kindOf(status int, body []byte) kind {
	for _, k := range kinds {
		if k.status == status && (k.says == "" || bytes.Contains(body, []byte(k.says))) {
			return k.kind
		}
	}
	var problem struct{ Detail string }
	_ = json.Unmarshal(body, &problem) // an upstream's answer has none
	return kind(fmt.Sprintf("%d unexplained %.80s", status, problem.Detail))
}

// A crowd is everybody who asks Weir, by what they do, and what became of their requests.
type crowd struct {
	front   string
	clients atomic.Uint32 // who have asked so far

	mu    sync.Mutex
	came  map[string]map[kind]int // by whom
	took  []time.Duration         // a sample since the last report
	asked int
}

func newCrowd(front string) *crowd { return &crowd{front: front, came: map[string]map[kind]int{}} }

// fresh is an address that nobody has asked from. Every eighth is IPv6, in a /48 of its own.
func (c *crowd) fresh() string {
	n := c.clients.Add(1)
	if n%8 == 0 {
		return fmt.Sprintf("2a00:%x:%x::1", n>>16, n&0xffff)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 11+n>>24, n>>16&0xff, n>>8&0xff, n&0xff)
}

// sampled is of how many answers one's time is kept.
const sampled = 16

func (c *crowd) note(who string, k kind, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.came[who] == nil {
		c.came[who] = map[kind]int{}
	}
	c.came[who][k]++
	c.asked++
	if c.asked%sampled == 0 {
		c.took = append(c.took, took)
	}
}

// count is how often requests of whom came to one of kinds; of everybody if whom is empty.
func (c *crowd) count(whom string, kinds ...kind) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for who, came := range c.came {
		for k, times := range came {
			if (whom == "" || who == whom) && slices.Contains(kinds, k) {
				n += times
			}
		}
	}
	return n
}

// begins is how many requests were answered with an HTTP status that begins so.
func (c *crowd) begins(with string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, came := range c.came {
		for k, times := range came {
			if strings.HasPrefix(string(k), with) {
				n += times
			}
		}
	}
	return n
}

// total is how many requests there were.
func (c *crowd) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// spread returns the median and the 99th percentile of the times since it was last asked.
func (c *crowd) spread() (p50, p99 time.Duration) {
	c.mu.Lock()
	took := c.took
	c.took = nil
	c.mu.Unlock()
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// may is what each of the crowd may be answered.
var may = map[string][]kind{
	"fresh":    {passed, saturated}, // each is within its limit whoever counts
	"regular":  {passed, limited},
	"exact":    {passed, limited, uncounted},
	"keyed":    {passed, limited, uncounted},
	"revoked":  {passed, keyless, limited, uncounted},
	"slots":    {passed, limited, uncounted},
	"attacker": {attacked, limited, banned, saturated},
	"outcast":  {passed, banned},
	"probe":    {passed, limited},
	"slow":     {passed},
	"quitter":  {leftAsk, leftTold},
}

// unexplained are the answers that the configuration does not explain, with how often they came.
func (c *crowd) unexplained() (faults []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for who, came := range c.came {
		for k, n := range came {
			if !slices.Contains(may[who], k) {
				faults = append(faults, fmt.Sprintf("%d requests of %s came to %q, want one of %q", n, who, k, may[who]))
			}
		}
	}
	return faults
}

// table is who asked, and what became of it.
func (c *crowd) table() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, who := range slices.Sorted(maps.Keys(c.came)) {
		fmt.Fprintf(&b, "  %-9s", who)
		for _, k := range slices.Sorted(maps.Keys(c.came[who])) {
			fmt.Fprintf(&b, " %s: %d;", k, c.came[who][k])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A question is a request of one of the crowd.
type question struct {
	who, client  string
	method, path string // GET if empty
	key, body    string
}

func (q *question) text() string {
	method, more := "GET", ""
	if q.method != "" {
		method = q.method
	}
	if q.key != "" {
		more = "X-API-Key: " + q.key + "\r\n"
	}
	if q.body != "" {
		more += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(q.body))
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: soak.example\r\nUser-Agent: soak\r\nX-Forwarded-For: %s\r\n%s\r\n%s", method, q.path, q.client, more, q.body)
}

// A line is a connection to Weir, opened when it is needed, of one that asks one question after the other.
type line struct {
	crowd *crowd
	conn  net.Conn
	from  *bufio.Reader
}

func (c *crowd) line() *line { return &line{crowd: c} }

// send sends text. The connection is closed before the whole answer may be late for ever.
func (l *line) send(text string) error {
	if l.conn == nil {
		conn, err := net.Dial("tcp", l.crowd.front)
		if err != nil {
			return err
		}
		l.conn, l.from = conn, bufio.NewReader(conn)
	}
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.WriteString(l.conn, text)
	return err
}

// ask sends q, reads the whole answer as fast as it comes, and returns what became of q.
func (l *line) ask(q question) kind { return l.hear(q, io.ReadAll) }

// hear sends q and reads the answer's body by read.
func (l *line) hear(q question, read func(io.Reader) ([]byte, error)) kind {
	began := time.Now()
	k, err := l.exchange(q, read)
	if err != nil {
		l.close()
		k = kind(fmt.Sprintf("no answer: %v", err))
	}
	l.crowd.note(q.who, k, time.Since(began))
	return k
}

func (l *line) exchange(q question, read func(io.Reader) ([]byte, error)) (kind, error) {
	if err := l.send(q.text()); err != nil {
		return "", err
	}
	res, err := http.ReadResponse(l.from, nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := read(res.Body)
	if err != nil {
		return "", err
	}
	if res.Close {
		l.close()
	}
	return kindOf(res.StatusCode, body), nil
}

func (l *line) close() {
	if l.conn != nil {
		l.conn.Close()
	}
	l.conn = nil
}
