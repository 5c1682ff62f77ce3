package limiters

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"
)

// ChildCommand is the word after which a program that uses this package must call Child.
const ChildCommand = "limiter"

// A job is what a child is asked to do.
type job struct {
	What string        `json:"what"` // open, speed, heap or expire
	Load string        `json:"load"` // open: hot, refused, uniform or zipf
	CPUs int           `json:"cpus"` // speed
	For  time.Duration `json:"for"`  // speed, expire
}

// A result is what came of a job.
type result struct {
	NS     float64 `json:"ns"` // speed: wall time over all decisions of all callers
	Allocs float64 `json:"allocs"`
	Passed float64 `json:"passed"` // part of the decisions

	Bytes   float64 `json:"bytes"`   // heap: per key
	Objects float64 `json:"objects"` // heap: per key
	Empty   float64 `json:"empty"`   // heap: ms of a full collection without keys
	Full    float64 `json:"full"`    // heap: ms of a full collection with keys

	Gap     float64 `json:"gap"`     // expire: ms, the longest step of the same loop without the limiter
	GapOver int     `json:"gapOver"` // expire: steps of that loop over 1 ms
	Longest float64 `json:"longest"` // expire: ms, the longest call
	Over    int     `json:"over"`    // expire: calls over 1 ms
	Calls   int     `json:"calls"`   // expire
}

// Child does the jobs that in asks for, on the limiter of that name, until in ends.
func Child(name string, in io.Reader, out io.Writer) error {
	l, ok := find(name)
	if !ok {
		return fmt.Errorf("no limiter is called %q", name)
	}
	w := &worker{limiter: l, keys: keys(manyKeys)}
	results := json.NewEncoder(out)
	for jobs := json.NewDecoder(in); ; {
		var j job
		switch err := jobs.Decode(&j); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := results.Encode(w.do(j)); err != nil {
			return err
		}
	}
}

func (w *worker) do(j job) result {
	runtime.GOMAXPROCS(max(1, j.CPUs))
	switch j.What {
	case "open":
		w.open(j.Load)
		return result{}
	case "speed":
		return w.speed(j)
	case "heap":
		return w.heap()
	case "expire":
		return w.expire(j.For)
	}
	panic("no such job: " + j.What)
}

// A child is the process of one limiter.
type child struct {
	name    string
	process *exec.Cmd
	in      io.WriteCloser
	jobs    *json.Encoder
	results *json.Decoder
}

// start starts the child of the limiter called name: this program once more.
func start(name string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, process: exec.Command(self, ChildCommand, name)}
	c.process.Stderr = os.Stderr
	if c.in, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.jobs, c.results = json.NewEncoder(c.in), json.NewDecoder(out)
	return c, c.process.Start()
}

func (c *child) ask(j job) (r result, err error) {
	if err = c.jobs.Encode(j); err == nil {
		err = c.results.Decode(&r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %s: %w", c.name, j.What, err)
	}
	return r, nil
}

// stop lets the child end and waits for it.
func (c *child) stop() {
	c.in.Close()
	_ = c.process.Wait() // what it had to say it said
}

// collected empties the heap of what is not in use.
func collected() {
	runtime.GC()
	debug.FreeOSMemory()
}
