package logs

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// A shape is what a generated log is like.
type shape struct {
	lines, clients int
	perSecond      int
}

const (
	chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
	curl   = "curl/8.5.0"
)

// write writes a log of nginx's combined format, always the same: some clients ask far more often than
// others, two paths in seven have an id in them.
func (s shape) write(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	often := rand.NewZipf(r, 1.05, 10, uint64(s.clients-1))
	paths := []string{"/", "/api/search?q=shoes&page=2", "/api/users/%d", "/static/app.3f2a9c1d.js", "/login", "/products/%d/reviews", "/cart"}
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range s.lines {
		path := paths[r.IntN(len(paths))]
		if path == paths[2] || path == paths[5] {
			path = fmt.Sprintf(path, r.IntN(100_000))
		}
		status, agent := 200, chrome
		if r.IntN(20) == 0 {
			status, agent = 404, curl
		}
		c := often.Uint64()
		fmt.Fprintf(out, "%d.%d.%d.%d - - [%s] \"GET %s HTTP/1.1\" %d %d \"https://example.com/\" \"%s\"\n", 11+c>>24, c>>16&255, c>>8&255, c&255,
			start.Add(time.Duration(i/s.perSecond)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), path, status, r.IntN(50_000), agent)
	}
	if err := out.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
