package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/plain"
)

// A watching is what weir top was told.
type watching struct {
	running          adminClient
	by, window, sort string
	filter           string
	limit            int
	every            time.Duration
	once, asJSON     bool
}

func topCommand() *cobra.Command {
	var w watching
	cmd := &cobra.Command{
		Use:   "top [--admin URL]",
		Short: "Show who and what asks a running Weir most",
		Long: "Show who and what asks a running Weir most: on a terminal until q is pressed (? tells the keys), printed\n" +
			"once otherwise. Needs no limit to be configured.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return err
			}
			return atRunTime(func(cmd *cobra.Command, _ []string) error {
				return w.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			})(cmd, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.by, "by", "client", "what: client, path, rule, or shadow, the clients that a shadow limit would refuse")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(rankings(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	f.StringVar(&w.window, "window", "1m", "how far back: 1m, 1h or 24h")
	f.StringVar(&w.sort, "sort", "requests", "order: requests or refused")
	f.StringVar(&w.filter, "filter", "", "only keys that contain this")
	f.IntVar(&w.limit, "limit", 20, "at most so many, up to 100")
	f.DurationVar(&w.every, "every", 2*time.Second, "on a terminal, how often")
	f.BoolVar(&w.once, "once", false, "print once, on a terminal, too")
	f.BoolVar(&w.asJSON, "json", false, "print once, as JSON")
	adminFlags(cmd, &w.running)
	return cmd
}

// What can be asked for, the default first.
func rankings() []string { return []string{"client", "path", "rule", "shadow"} }
func windows() []string  { return []string{"1m", "1h", "24h"} }
func orders() []string   { return []string{"requests", "refused"} }

// check returns what is wrong with the flags.
func (w *watching) check() error {
	for _, f := range []struct {
		name, value string
		accepted    []string
	}{
		{"by", w.by, rankings()}, {"window", w.window, windows()}, {"sort", w.sort, orders()},
	} {
		if !slices.Contains(f.accepted, f.value) {
			return fmt.Errorf("--%s %s: want one of %s", f.name, f.value, strings.Join(f.accepted, ", "))
		}
	}
	switch {
	case w.limit < 1 || w.limit > mostShown:
		return fmt.Errorf("--limit %d: want 1 to %d", w.limit, mostShown)
	case w.every < 100*time.Millisecond:
		return fmt.Errorf("--every %s: want at least 100ms", w.every)
	}
	return w.running.check()
}

// mostShown is how many entries there are at most.
const mostShown = 100

// run prints the top, or shows it for as long as somebody looks.
func (w *watching) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if w.once || w.asJSON || !isTerminal(out) {
		return w.print(ctx, out)
	}
	return newScreen(w, in, out).run(ctx)
}

// isTerminal reports whether w is a terminal that understands cursor movements.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	about, err := f.Stat()
	return err == nil && about.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// print prints the top once.
func (w *watching) print(ctx context.Context, out io.Writer) error {
	top, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	w.choose(&top)
	if w.asJSON {
		return json.NewEncoder(plain.JSONTo(out)).Encode(top)
	}
	return tellTop(out, &top, wide)
}

// The least columns of a terminal in which there is room for everything. In fewer there is room for who asks
// how much.
const wide = 80

// fetch asks for the top.
func (w *watching) fetch(ctx context.Context) (top admin.Top, err error) {
	q := url.Values{"by": {w.by}, "window": {w.window}, "sort": {w.sort}, "limit": {strconv.Itoa(mostShown)}}
	err = w.running.ask(ctx, http.MethodGet, "/api/v1/top?"+q.Encode(), nil, &top)
	return top, err
}

// choose leaves in top what is to be shown.
func (w *watching) choose(top *admin.Top) {
	top.Entries = slices.DeleteFunc(slices.Clone(top.Entries), func(e admin.TopEntry) bool { return !strings.Contains(e.Key, w.filter) })
	top.Entries = top.Entries[:min(len(top.Entries), w.limit)]
}

// tellTop tells the top in a number of columns.
func tellTop(out io.Writer, top *admin.Top, columns int) error {
	seconds := max(top.To.Sub(top.From).Seconds(), 1)
	fmt.Fprintf(out, "since %s: %d requests (%.1f/s), %d refused\n\n", top.From.Local().Format(time.TimeOnly), top.Requests, float64(top.Requests)/seconds, top.Refused)
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if columns < wide {
		tell(t, "REQUESTS\tREFUSED\t%s\n", strings.ToUpper(top.By))
		for _, e := range top.Entries {
			tell(t, "%s\t%d\t%s\n", atLeast(e.Requests, e.Error), e.Refused, e.Key)
		}
		return t.Flush()
	}
	tell(t, "RANK\tREQUESTS\tSHARE\tREFUSED\tLAST %s\t%s\n", span(top), strings.ToUpper(top.By))
	for _, e := range top.Entries {
		tell(t, "%d\t%s\t%.1f %%\t%d\t%s\t%s\n", e.Rank, atLeast(e.Requests, e.Error), e.Share*100, e.Refused, sparkline(e.Spark), e.Key)
	}
	return t.Flush()
}

// span is how long the sparklines are.
func span(top *admin.Top) string {
	if len(top.Entries) == 0 {
		return top.Window
	}
	return (time.Duration(float64(len(top.Entries[0].Spark))*top.Step) * time.Second).String()
}

// atLeast says how many, and how many more at most.
func atLeast(n, more uint64) string {
	if more == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d +%d", n, more)
}

// sparkline draws numbers as bars of eight heights; nothing is a blank.
func sparkline(numbers []uint64) string {
	const bars = "▁▂▃▄▅▆▇█"
	most := slices.Max(append([]uint64{1}, numbers...))
	var b strings.Builder
	for _, n := range numbers {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune([]rune(bars)[min(n*8/most, 7)])
	}
	return b.String()
}
