package journal

import (
	"math/bits"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

const (
	pageNotes   = 16  // of one page
	mostPages   = 128 // of a journal
	perParallel = 4   // pages for each processor, so that two of them seldom meet
)

// A page is what Record writes to. Once it is full, or before anything is read, it is told to all that keep
// something: they take their locks and fetch their memory once for many decisions. No reader sees a difference.
type page struct {
	mu    sync.Mutex
	used  int
	notes [pageNotes]*note
	_     [48]byte // so that two processors do not share a cache line
}

type pages struct {
	list   []page       // a power of two of them
	newest atomic.Int64 // the newest second in which an answer ended
}

func newPages() *pages {
	n := min(mostPages, 1<<bits.Len(uint(runtime.GOMAXPROCS(0)*perParallel-1)))
	p := &pages{list: make([]page, n)}
	for i := range p.list {
		copy(p.list[i].notes[:], newNotes(pageNotes))
	}
	return p
}

// of returns a page for d. Decisions are used again by the processor that used them last, so that their memory
// tells which page that processor wrote to before.
func (p *pages) of(d *weir.Decision) *page {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: neighbours fall apart
	hash := uint64(reflect.ValueOf(d).Pointer()) * golden
	return &p.list[hash>>32&uint64(len(p.list)-1)]
}

// note writes a note about d. Its number is given while its page is locked, so that who reads the last number and
// settles then has all up to it.
func (j *Journal) note(d *weir.Decision, o weir.Outcome) {
	ended := d.At.Unix() + (int64(d.At.Nanosecond())+int64(o.Duration))/int64(time.Second)
	if newest := j.pages.newest.Load(); ended > newest && j.pages.newest.CompareAndSwap(newest, ended) {
		j.settle() // so that what belongs to a second is counted in it
	}
	p := j.pages.of(d)
	p.mu.Lock()
	n := p.notes[p.used]
	n.number, n.ended = j.ring.last.Add(1), ended
	n.fill(d, o)
	n.clientHash = j.talkers.clientHash(&n.client)
	j.diagnosis.see(n, d)
	if p.used++; p.used == pageNotes {
		j.tell(p)
	}
	p.mu.Unlock()
}

// settle makes everything that was recorded part of what is read.
func (j *Journal) settle() {
	for i := range j.pages.list {
		p := &j.pages.list[i]
		p.mu.Lock()
		j.tell(p)
		p.mu.Unlock()
	}
}

// tell empties p, whose lock is held.
func (j *Journal) tell(p *page) {
	notes := p.notes[:p.used]
	p.used = 0
	if len(notes) == 0 {
		return
	}
	j.counts.take(notes)
	j.talkers.take(notes)
	j.diagnosis.take(notes)
	j.ring.take(notes)
}
