package limiters

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir/bench/rounds"
)

const (
	manyKeys = 1_000_000
	steps    = 1 << 20 // of a sequence, before it begins anew
	batch    = 512     // decisions between two looks at whether to stop
)

// A worker measures one limiter.
type worker struct {
	limiter  limiter
	keys     []string
	load     string
	sequence []uint32 // which keys are asked for
	opened   func() take
}

// keys returns n clients' addresses.
func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("ip:10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	}
	return all
}

// sequence returns the order in which a load asks for keys: always the first, or any.
func sequence(load string) []uint32 {
	r, order := rand.New(rand.NewPCG(1, 2)), make([]uint32, steps)
	switch load {
	case "uniform":
		for i := range order {
			order[i] = uint32(r.IntN(manyKeys))
		}
	case "zipf":
		z, place := rand.NewZipf(r, 1.1, 1, manyKeys-1), r.Perm(manyKeys)
		for i := range order {
			order[i] = uint32(place[z.Uint64()])
		}
	}
	return order
}

// open opens the limiter for a load, and fills it if the load asks for many keys.
func (w *worker) open(load string) {
	filled := w.load == "uniform" || w.load == "zipf"
	w.load, w.sequence = load, sequence(load)
	many := load == "uniform" || load == "zipf"
	if many && filled {
		return // the same keys under the same limit
	}
	w.opened = w.limiter.open(options{refuse: load == "refused", window: time.Minute})
	if many {
		w.fill()
	}
	collected()
}

// fill asks once for each key. A limiter that keeps the key pays for its bytes.
func (w *worker) fill() {
	ask := w.opened()
	for _, key := range w.keys {
		ask(strings.Clone(key))
	}
}

// speed lets as many goroutines as there are CPUs decide for a while.
func (w *worker) speed(j job) result {
	var stop atomic.Bool
	var decisions, passed atomic.Int64
	var callers sync.WaitGroup
	begin := make(chan struct{})
	for i := range j.CPUs {
		ask := w.opened()
		callers.Go(func() {
			<-begin
			n, ok := w.decide(ask, i*(steps/2), &stop)
			decisions.Add(n)
			passed.Add(ok)
		})
	}
	before, cpu, began := mallocs(), rounds.CPU(), time.Now()
	close(begin)
	time.Sleep(j.For)
	stop.Store(true)
	callers.Wait()
	took, n := time.Since(began), decisions.Load()
	if j.CPUs == 1 {
		took = rounds.CPU() - cpu // strangers cannot take that
	}
	return result{
		NS:     float64(took) / float64(n),
		Allocs: rounds.Objects(mallocs()-before, int(n)),
		Passed: float64(passed.Load()) / float64(n),
	}
}

// decide decides until it is stopped, and returns how many there were and how many of them passed.
func (w *worker) decide(ask take, at int, stop *atomic.Bool) (n, passed int64) {
	for !stop.Load() {
		for range batch {
			if ask(w.keys[w.sequence[at%steps]]) {
				passed++
			}
			at++
		}
		n += batch
	}
	return n, passed
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

const collections = 15

// heap tells what a million keys cost the memory and the garbage collector.
func (w *worker) heap() result {
	w.load, w.opened = "", nil
	w.opened = w.limiter.open(options{window: time.Minute})
	empty, gcEmpty := inUse()
	w.fill()
	full, gcFull := inUse()
	runtime.KeepAlive(w.opened)
	return result{
		Bytes:   (float64(full.HeapAlloc) - float64(empty.HeapAlloc)) / manyKeys,
		Objects: (float64(full.HeapObjects) - float64(empty.HeapObjects)) / manyKeys,
		Empty:   gcEmpty,
		Full:    gcFull,
	}
}

// inUse returns what is in use after collections, and the ms of the quietest one.
func inUse() (m runtime.MemStats, ms float64) {
	collected()
	var took []float64
	for range collections {
		began := time.Now()
		runtime.GC()
		took = append(took, time.Since(began).Seconds()*1e3)
	}
	runtime.ReadMemStats(&m)
	return m, slices.Min(took)
}

const (
	brief  = time.Second           // the window of keys that are to expire
	breath = 20 * time.Microsecond // between a few calls, so that others' goroutines come to work
)

// expire fills the limiter with keys that expire soon, and then asks in turn for one that is always
// there and for a new one while they do. Before that it does the same without asking.
func (w *worker) expire(long time.Duration) result {
	w.load, w.opened = "", nil
	collected()
	none := watch(long, func(string) bool { return true })
	w.opened = w.limiter.open(options{window: brief})
	w.fill()
	busy := watch(long, w.opened())
	return result{Gap: none.longest, GapOver: none.over, Longest: busy.longest, Over: busy.over, Calls: busy.calls}
}

// A watched is a loop whose steps were timed.
type watched struct {
	longest     float64 // ms
	over, calls int     // over 1 ms
}

// watch times each call of ask.
func watch(long time.Duration, ask take) (w watched) {
	for end := time.Now().Add(long); ; w.calls++ {
		key := "hot"
		if w.calls%2 == 1 {
			key = fmt.Sprintf("new:%d", w.calls)
		}
		began := time.Now()
		if began.After(end) {
			return w
		}
		ask(key)
		took := time.Since(began).Seconds() * 1e3
		w.longest = max(w.longest, took)
		if took > 1 {
			w.over++
		}
		if w.calls%256 == 255 {
			time.Sleep(breath)
		}
	}
}
