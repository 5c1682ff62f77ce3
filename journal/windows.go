package journal

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/topk"
)

// A Window is how far back a ranking looks.
type Window uint8

const (
	Minute Window = iota
	Hour
	Day
	windows = iota
)

// A window is the tallies of the last minute, hour or day, in pieces of one length.
type window struct {
	step   int64   // slots of a piece
	pieces []tally // that of a number lies at the number modulo their number
}

// newWindows cuts a minute into 6 pieces, an hour into 12, a day into 24; one more is under way.
func newWindows() [windows]window {
	return [windows]window{
		Minute: {1, make([]tally, 7)},
		Hour:   {int64(5 * time.Minute / slotTime), make([]tally, 13)},
		Day:    {int64(time.Hour / slotTime), make([]tally, 25)},
	}
}

// piece returns the tally of that number, made anew if its place had another.
func (w *window) piece(number int64) *tally {
	p := &w.pieces[number%int64(len(w.pieces))]
	if p.number != number {
		p.begin(number)
	}
	return p
}

// merge adds a slot, unless it is older than the window.
func (w *window) merge(slot *tally) {
	number := slot.number / w.step
	if p := &w.pieces[number%int64(len(w.pieces))]; p.number > number {
		return
	}
	w.piece(number).merge(slot)
}

// Top is who came most often within a window.
type Top struct {
	From, To          time.Time     // what is counted ended within
	Step              time.Duration // what one number of a Talker's Spark stands for
	Requests, Refused uint64        // of all, exactly
	Talkers           []Talker
}

// A Talker is one of those who came most often.
type Talker struct {
	Key      string // the client's as it is counted, the path's group, or the rule's name
	Source   string // how the client was found; empty for paths and rules
	Requests uint64 // at least so many
	Error    uint64 // and at most so many more
	Refused  uint64 // of those requests, at least; in ByShadow, refused whatever the shadow says
	Spark    []uint64
}

// A TopQuery says what ranking is wanted.
type TopQuery struct {
	By        Ranking
	Within    Window
	ByRefused bool // order by refusals
	Most      int  // talkers
}

// Top returns who came most often.
func (j *Journal) Top(q TopQuery) Top {
	j.settle()
	return j.talkers.top(j.now(), q)
}

func (t *talkers) top(now time.Time, q TopQuery) Top {
	t.reading.Lock()
	defer t.reading.Unlock()
	pieces := t.pieces(now, q.Within, q.By)
	sum := topk.New(places[q.By])
	w := &t.windows[q.Within]
	top := Top{To: now, Step: time.Duration(w.step) * slotTime}
	top.From = time.Unix(pieces[0].number*w.step*int64(slotTime/time.Second), 0)
	for i := range pieces {
		top.Requests, top.Refused = top.Requests+pieces[i].requests, top.Refused+pieces[i].refused
		if pieces[i].by[q.By] != nil {
			sum.Merge(pieces[i].by[q.By])
		}
	}
	items := sum.Items()
	slices.SortFunc(items, q.order)
	for _, item := range items[:min(len(items), max(q.Most, 0))] {
		top.Talkers = append(top.Talkers, q.talker(item, pieces))
	}
	return top
}

// order puts who came most often first, and whoever is equal in an order that lasts.
func (q TopQuery) order(a, b topk.Item) int {
	byRefused := 0
	if q.ByRefused {
		byRefused = cmp.Compare(b.Marked, a.Marked)
	}
	return cmp.Or(byRefused, cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Key, b.Key))
}

func (q TopQuery) talker(item topk.Item, pieces []tally) Talker {
	t := Talker{Key: item.Key, Requests: item.Hits, Error: item.Error, Refused: item.Marked}
	if q.By == ByClient || q.By == ByShadow {
		key := clientKey([]byte(item.Key))
		c := key.read()
		t.Key, t.Source = c.Key(), c.Source.String()
	}
	for i := range pieces {
		n := uint64(0)
		if sketch := pieces[i].by[q.By]; sketch != nil {
			n = sketch.Get(item.Hash).Hits
		}
		t.Spark = append(t.Spark, n)
	}
	return t
}

// pieces returns those of a window that are within it at now, the oldest first, with what is counted at
// this moment in the last. Only the one ranking of them is there. It holds reading.
func (t *talkers) pieces(now time.Time, within Window, by Ranking) []tally {
	t.settle(now)
	w := &t.windows[within]
	current := t.current(by)
	last := current.number / w.step
	pieces := make([]tally, 0, len(w.pieces))
	for number := last - int64(len(w.pieces)) + 1; number <= last; number++ {
		p := w.pieces[(number+int64(len(w.pieces)))%int64(len(w.pieces))]
		if p.number != number {
			p = tally{}
		}
		pieces = append(pieces, p.only(number, by))
	}
	newest := &pieces[len(pieces)-1]
	if sketch := newest.by[by]; sketch != nil {
		current.by[by].Merge(sketch)
	}
	newest.by[by] = current.by[by]
	newest.requests, newest.refused = newest.requests+current.requests, newest.refused+current.refused
	return pieces
}

// current returns a copy of the slot under way, of one ranking alone.
func (t *talkers) current(by Ranking) tally {
	copied := topk.New(places[by])
	t.mu.Lock()
	defer t.mu.Unlock()
	y := t.slot.only(t.slot.number, by)
	if y.by[by] != nil {
		copied.Copy(y.by[by])
	}
	y.by[by] = copied
	return y
}

// only returns the totals of y and the one ranking, which is still y's.
func (y *tally) only(number int64, by Ranking) tally {
	one := tally{number: number, requests: y.requests, refused: y.refused}
	one.by[by] = y.by[by]
	return one
}

// A Use is what one client did within a window.
type Use struct {
	Requests uint64 // at least so many
	Error    uint64 // and at most so many more
	Refused  uint64 // of those requests, at least
}

// Use returns what the client did of which key is the text that it is counted under.
func (j *Journal) Use(key string, within Window) Use {
	j.settle()
	return j.talkers.use(j.now(), key, within)
}

func (t *talkers) use(now time.Time, key string, within Window) Use {
	t.reading.Lock()
	defer t.reading.Unlock()
	sum := topk.New(places[ByClient])
	for _, p := range t.pieces(now, within, ByClient) {
		if p.by[ByClient] != nil {
			sum.Merge(p.by[ByClient])
		}
	}
	c, ok := weir.ParseKey(key)
	if !ok {
		return Use{}
	}
	var client clientKey
	client.write(&c)
	item := sum.Get(t.clientHash(&client))
	return Use{item.Hits, item.Error, item.Marked}
}
