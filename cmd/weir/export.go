package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/stickexport"
)

func exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Serve what another program counts as metrics",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(exportHAProxyCommand())
	return cmd
}

// An exporting is what weir export haproxy was told.
type exporting struct {
	table    stickexport.Options
	listen   string
	interval time.Duration
	asJSON   bool
}

func exportHAProxyCommand() *cobra.Command {
	var e exporting
	cmd := &cobra.Command{
		Use:   "haproxy --socket PATH --table NAME [--listen ADDR]",
		Short: "Print the top entries of an HAProxy stick table, or serve them as metrics",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.table.Top < 1 {
				return fmt.Errorf("--top %d: want 1 to %d", e.table.Top, stickexport.MaxTop)
			}
			r, err := stickexport.New(e.table)
			if err != nil {
				return err
			}
			if e.interval <= 0 {
				return fmt.Errorf("--interval %s: want more than 0, as in 10s", e.interval)
			}
			return atRunTime(func(cmd *cobra.Command, _ []string) error { return e.run(cmd, r) })(cmd, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.table.Socket, "socket", "", "HAProxy's runtime socket: a path, or HOST:PORT")
	f.StringVar(&e.table.Table, "table", "", "name of the stick table")
	f.StringVar(&e.table.By, "by", "", "datum to rank by, as in http_req_rate (default the likeliest that is stored)")
	f.IntVar(&e.table.Top, "top", 20, "how many entries, at most 1000")
	f.Int64Var(&e.table.Min, "min", 0, "only entries above this value")
	f.DurationVar(&e.table.Timeout, "timeout", 5*time.Second, "how long HAProxy's answer is waited for")
	f.StringVar(&e.listen, "listen", "", "serve the metrics at http://ADDR/metrics instead of printing")
	f.DurationVar(&e.interval, "interval", 10*time.Second, "with --listen: ask HAProxy at most this often")
	f.BoolVar(&e.asJSON, "json", false, "print JSON")
	for _, name := range []string{"socket", "table"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that does not exist
	}
	return cmd
}

// run prints the top once, or serves it until the command's context ends.
func (e *exporting) run(cmd *cobra.Command, r *stickexport.Reader) error {
	if e.listen != "" {
		return e.serve(cmd.Context(), cmd.ErrOrStderr(), r)
	}
	top, err := r.Read(cmd.Context())
	if err != nil {
		return err
	}
	if e.asJSON {
		return json.NewEncoder(plain.JSONTo(cmd.OutOrStdout())).Encode(top)
	}
	return top.WriteText(cmd.OutOrStdout())
}

// lastScrape is how long a scrape may take that is on its way when the command is told to stop.
const lastScrape = 5 * time.Second

func (e *exporting) serve(ctx context.Context, log io.Writer, r *stickexport.Reader) error {
	l, err := net.Listen("tcp", e.listen)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	logger.Info("serving", "metrics", "http://"+l.Addr().String()+"/metrics")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", stickexport.NewExporter(r, e.interval, logger).Handler())
	server := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.Background(), lastScrape)
		defer cancel()
		stopped <- server.Shutdown(last)
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
