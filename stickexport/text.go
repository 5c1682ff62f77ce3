package stickexport

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirgate/weir/internal/plain"
)

// WriteText prints the ranking for people.
func (r *Ranking) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "table %s, type %s: %d of %d entries\n", plain.Text(r.Table), plain.Text(r.Type), r.Used, r.Size)
	if len(r.Entries) == 0 {
		_, err := fmt.Fprintln(w, "nothing to rank")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "rank\tkey\t%s\n", strings.Join(r.columns(), "\t"))
	for i := range r.Entries {
		e := &r.Entries[i]
		fmt.Fprintf(t, "%d\t%s\t%d", e.Rank, plain.Text(e.Key), e.Value)
		for _, d := range e.Data {
			if d.Name != r.By {
				fmt.Fprintf(t, "\t%d", d.Value)
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// columns are the names of the data, first the one that it is ranked by.
func (r *Ranking) columns() []string {
	columns := []string{""}
	for _, d := range r.Entries[0].Data {
		name := d.Name
		if d.Period > 0 {
			name += "/" + time.Duration(d.Period).String()
		}
		if d.Name == r.By {
			columns[0] = name
			continue
		}
		columns = append(columns, name)
	}
	return columns
}
