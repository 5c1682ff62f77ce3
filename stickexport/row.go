package stickexport

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A table is what HAProxy says of one before its entries.
type table struct {
	name, kind string
	size, used int64
}

// parseTable reads a line as in "# table: web, type: ip, size:204800, used:2".
func parseTable(line string) (table, error) {
	rest, ok := strings.CutPrefix(line, "# table: ")
	parts := strings.Split(rest, ", ")
	if !ok || len(parts) < 4 {
		return table{}, fmt.Errorf("%.100q is not the head of a table", line)
	}
	t := table{name: parts[0], kind: strings.TrimPrefix(parts[1], "type: ")}
	var errSize, errUsed error
	t.size, errSize = strconv.ParseInt(strings.TrimPrefix(parts[2], "size:"), 10, 64)
	t.used, errUsed = strconv.ParseInt(strings.TrimPrefix(parts[3], "used:"), 10, 64)
	if errSize != nil || errUsed != nil {
		return table{}, fmt.Errorf("%.100q is not the head of a table", line)
	}
	return t, nil
}

// A row is an entry as it is read: parts of a line, good until the next one.
type row struct {
	key     []byte // as HAProxy writes it, with what is no printable character escaped
	expires int64  // milliseconds
	data    []datum
}

// A datum is one of the values that a table stores for each key.
type datum struct {
	name   []byte
	period int64 // of a rate, in milliseconds; 0: none
	value  int64
}

// parse reads a line as in "0x80e6a4c: key=127.0.0.1 use=0 exp=3594729 shard=0 gpc0=0 conn_rate(30000)=1".
// What has another form, or is not a number, is passed over, so that what later versions add does no harm.
// It reports whether there is a key.
func (r *row) parse(line []byte) bool {
	*r = row{data: r.data[:0]}
	for len(line) > 0 {
		var word []byte
		word, line = nextWord(line)
		name, value, ok := bytes.Cut(word, []byte("="))
		switch {
		case !ok:
		case string(name) == "key":
			r.key = value
		case string(name) == "exp":
			r.expires, _ = strconv.ParseInt(string(value), 10, 64)
		case string(name) == "use", string(name) == "shard":
		default:
			r.addDatum(name, value)
		}
	}
	return r.key != nil
}

// nextWord returns what stands before the first blank that is not escaped, and what follows it.
func nextWord(line []byte) (word, rest []byte) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case ' ':
			return line[:i], line[i+1:]
		}
	}
	return line, nil
}

// addDatum adds what "conn_rate(30000)" and "1" stand for.
func (r *row) addDatum(name, value []byte) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return
	}
	d := datum{name: name, value: n}
	if open := bytes.IndexByte(name, '('); open >= 0 && name[len(name)-1] == ')' {
		d.name = name[:open]
		d.period, _ = strconv.ParseInt(string(name[open+1:len(name)-1]), 10, 64)
	}
	r.data = append(r.data, d)
}

// find returns the value of that name.
func (r *row) find(name string) (int64, bool) {
	for i := range r.data {
		if string(r.data[i].name) == name {
			return r.data[i].value, true
		}
	}
	return 0, false
}

// keep returns the row as an entry that has memory of its own.
func (r *row) keep() Entry {
	e := Entry{Key: string(r.key), Expires: Seconds(time.Duration(r.expires) * time.Millisecond), Data: make([]Datum, len(r.data))}
	for i, d := range r.data {
		e.Data[i] = Datum{Name: string(d.name), Period: Seconds(time.Duration(d.period) * time.Millisecond), Value: d.value}
	}
	return e
}
