package stickexport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say what is read.
type Options struct {
	Socket  string        // HAProxy's runtime socket: a path, unix:PATH, or host:port
	Table   string        // the name of the stick table
	By      string        // the datum to rank by, as in http_req_rate; empty: the first of a list that there is
	Top     int           // entries; 20 if 0, at most MaxTop
	Min     int64         // only entries above it; those of 0 never are
	Timeout time.Duration // for one answer of HAProxy's; 5 s if 0
}

const (
	// MaxTop is the most entries that are read.
	MaxTop = 1000

	defaultTop     = 20
	defaultTimeout = 5 * time.Second
)

// A Reader reads the top of one table. It is safe for concurrent use.
type Reader struct {
	options Options
	socket  socket

	mu    sync.Mutex
	by    string // the datum to rank by, once it is known
	above int64  // what the last reading makes likely to be below the top; at least Min
}

var (
	tableName = regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`)
	datumName = regexp.MustCompile(`^[a-z0-9_]*$`)
)

// New returns a reader. It does not ask HAProxy yet.
func New(o Options) (*Reader, error) {
	if o.Top == 0 {
		o.Top = defaultTop
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	switch {
	case o.Socket == "":
		return nil, errors.New("want the path of HAProxy's runtime socket, or its address")
	case !tableName.MatchString(o.Table):
		return nil, fmt.Errorf("%q: want the name of a stick table", o.Table)
	case !datumName.MatchString(o.By):
		return nil, fmt.Errorf("%q: want the name of a datum, as in http_req_rate", o.By)
	case o.Top < 0 || o.Top > MaxTop:
		return nil, fmt.Errorf("%d: want 1 to %d entries", o.Top, MaxTop)
	case o.Min < 0 || o.Timeout < 0:
		return nil, errors.New("want nothing negative")
	}
	return &Reader{options: o, socket: socket{o.Socket, o.Timeout}, by: o.By, above: o.Min}, nil
}

// Read returns the top of the table. It asks only for what is likely to belong to it, by what was read the
// last time, and for all above Min if that was too little.
func (r *Reader) Read(ctx context.Context) (*Ranking, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ranking, err := r.read(ctx, r.above)
	if err == nil && len(ranking.Entries) < r.options.Top && r.above > r.options.Min {
		ranking, err = r.read(ctx, r.options.Min)
	}
	if err != nil {
		return nil, err
	}
	r.above = r.options.Min
	if n := len(ranking.Entries); n == r.options.Top {
		r.above = max(r.above, ranking.Entries[n-1].Value/2)
	}
	return ranking, nil
}

// read returns the top of what is above a value.
func (r *Reader) read(ctx context.Context, above int64) (*Ranking, error) {
	if r.by == "" {
		names, t, err := r.stored(ctx)
		if err != nil {
			return nil, err
		}
		if r.by = preferred(names); r.by == "" {
			return ranking(t, "", nil), nil
		}
	}
	for _, filter := range filters(r.by) {
		found, err := r.dump(ctx, r.by, filter, above)
		if !errors.Is(err, errFilter) {
			return found, err
		}
	}
	return nil, r.notStored(ctx, r.by)
}

// preference is what tables are ranked by, if they store it.
var preference = [...]string{
	"http_req_rate", "conn_rate", "gpc0_rate", "http_err_rate", "sess_rate", "bytes_out_rate", "http_req_cnt", "conn_cnt", "gpc0", "sess_cnt", "conn_cur",
}

// preferred returns what to rank by of what a table stores, or nothing if it stores nothing.
func preferred(names []string) string {
	for _, name := range preference {
		if slices.Contains(names, name) {
			return name
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

var arrayElement = regexp.MustCompile(`^(gpc|gpt)([0-9]+)(_rate)?$`)

// filters returns the names under which HAProxy may filter by a datum, the likeliest first. What the dump
// calls gpc1_rate, an element of the array gpc_rate, is gpc_rate[1] in a filter of some versions; in 2.6
// only the first element can be filtered by, and all of the table is read for the others.
func filters(by string) []string {
	m := arrayElement.FindStringSubmatch(by)
	if m == nil {
		return []string{by}
	}
	array := m[1] + m[3]
	if m[2] == "0" {
		return []string{by, array + "[0]", array, ""}
	}
	return []string{by, array + "[" + m[2] + "]", ""}
}

// errFilter is HAProxy's word that it cannot filter so.
var errFilter = errors.New("no such filter")

// noExpiry is the most that an entry of a table without expiry says of its own, in milliseconds: its time is
// always up, but threads of HAProxy differ by a moment.
const noExpiry = 1000

// dump reads the entries above a value, or all of them if there is no filter, and returns the top.
func (r *Reader) dump(ctx context.Context, by, filter string, above int64) (*Ranking, error) {
	condition := ""
	if filter != "" {
		condition = fmt.Sprintf(" data.%s gt %d", filter, above)
	}
	all, live, longest := top{by: by, most: r.options.Top}, top{by: by, most: r.options.Top}, int64(0)
	t, err := r.entries(ctx, condition, func(entry *row) error {
		all.add(entry, above)
		if longest = max(longest, entry.expires); entry.expires > 0 {
			live.add(entry, above)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if all.rows > 0 && all.missing == all.rows {
		return nil, errFilter
	}
	best := &all
	if longest > noExpiry {
		best = &live // haproxy#2024: some versions show entries whose time is up
	}
	return ranking(t, by, best.numbered()), nil
}

// entries gives every entry that the table shows under a condition to each, which may keep nothing of it,
// and returns what HAProxy says of the table.
func (r *Reader) entries(ctx context.Context, condition string, each func(*row) error) (t table, err error) {
	var headed bool
	var entry row
	err = r.socket.ask(ctx, "show table "+r.options.Table+condition, func(line []byte) (err error) {
		switch {
		case !headed:
			headed = true
			t, err = r.head(ctx, string(line))
			return err
		case line[0] == '#':
			return errors.New(refusalOf(string(line)))
		case !entry.parse(line):
			return fmt.Errorf("%.100q is not an entry", line)
		}
		return each(&entry)
	})
	return t, err
}

func ranking(t table, by string, entries []Entry) *Ranking {
	if entries == nil {
		entries = []Entry{}
	}
	return &Ranking{Table: t.name, Type: t.kind, Size: t.size, Used: t.used, By: by, Entries: entries}
}

// refusalOf is what a line that begins with # says in place of entries.
func refusalOf(line string) string {
	if strings.Contains(line, "privileges") {
		return "HAProxy does not show entries on this socket: want \"level operator\" or \"level admin\" on its \"stats socket\" line"
	}
	return strings.TrimPrefix(line, "# ")
}

// head reads the first line of an answer, which is the table's, or says why there is none.
func (r *Reader) head(ctx context.Context, line string) (table, error) {
	switch {
	case strings.HasPrefix(line, "# table: "):
		return parseTable(line)
	case strings.HasPrefix(line, "No such table"):
		return table{}, fmt.Errorf("no table %s: want one of %s", r.options.Table, r.tables(ctx))
	case strings.HasPrefix(line, "Filter entry"), strings.Contains(line, "data type"):
		return table{}, errFilter
	case strings.Contains(line, "ermission denied"):
		return table{}, errors.New(refusalOf("privileges"))
	}
	return table{}, fmt.Errorf("answered %.100q: is it HAProxy's runtime socket?", line)
}

// tables returns the names of all tables, for people.
func (r *Reader) tables(ctx context.Context) string {
	var names []string
	_ = r.socket.ask(ctx, "show table", func(line []byte) error { // the reason to ask is the error that is told
		if t, err := parseTable(string(line)); err == nil {
			names = append(names, t.name)
		}
		return nil
	})
	if names == nil {
		return "none: HAProxy has no stick table"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// stored returns the names of what the table stores, as its first entry shows them: none if it is empty.
func (r *Reader) stored(ctx context.Context) (names []string, t table, err error) {
	t, err = r.entries(ctx, "", func(entry *row) error {
		for _, d := range entry.data {
			names = append(names, string(d.name))
		}
		return errEnough
	})
	return names, t, err
}

// notStored says what the table can be ranked by.
func (r *Reader) notStored(ctx context.Context, by string) error {
	names, _, err := r.stored(ctx)
	switch {
	case err != nil:
		return err
	case names == nil:
		return fmt.Errorf("%s: table %s does not store %s", r.options.Socket, r.options.Table, by)
	}
	return fmt.Errorf("%s: table %s does not store %s: want one of %s", r.options.Socket, r.options.Table, by, strings.Join(names, ", "))
}
