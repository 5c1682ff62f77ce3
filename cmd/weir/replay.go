package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay"
	"github.com/weirgate/weir/replay/accesslog"
)

// A logFlags are those that say how logs are read.
type logFlags struct {
	format, zone string
	window       time.Duration
	strict       bool
	read         atomic.Int64 // bytes
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "auto", "format: auto, "+strings.Join(accesslog.Names(), ", ")+
		", or a pattern such as '{client} [{time}] \"{request}\" {status} {duration}'")
	formats := append([]string{"auto"}, accesslog.Names()...)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	cmd.Flags().StringVar(&f.zone, "tz", "UTC", "time zone of times without one, as HAProxy's")
	cmd.Flags().DurationVar(&f.window, "window", replay.DefaultWindow, "how far a line may be behind those before it")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "stop at the first line that cannot be read")
}

// open opens the logs. What is wrong with the flags is wrong usage.
func (f *logFlags) open(ctx context.Context, names []string) ([]*accesslog.Log, error) {
	if at := slices.Index(names, "-"); at >= 0 && slices.Contains(names[at+1:], "-") {
		return nil, errors.New("- is named twice: standard input can be read once")
	}
	zone, err := time.LoadLocation(f.zone)
	if err != nil {
		return nil, fmt.Errorf("--tz %s: want the name of a time zone, as in Europe/Berlin", f.zone)
	}
	if f.format != "auto" {
		if _, err := accesslog.Lookup(f.format); err != nil {
			return nil, fmt.Errorf("--format: %w", err)
		}
	}
	logs, err := accesslog.OpenAll(names, accesslog.OpenOptions{Format: f.format, Zone: zone, Read: &f.read, Context: ctx})
	if err != nil {
		return nil, failure{err}
	}
	return logs, nil
}

// A replaying is the command line of replay.
type replaying struct {
	logs                     logFlags
	config, against, peer    string
	maxRefused, html         string
	asJSON, schema, enforced bool
}

func replayCommand() *cobra.Command {
	var o replaying
	cmd := &cobra.Command{
		Use:   "replay [-c weir.yaml] [--format F] LOG…",
		Short: "Tell what a policy would have done to a recorded access log",
		Long: "Tell what a policy would have done to a recorded access log: plain, gzip or zstd files, or - for standard input.\n" +
			"The engine is that of live traffic, with the log's clock. What the log does not have is told, and never guessed.\n" +
			"Exits 3 if more than --max-refused is refused. Ctrl-C ends the reading and prints the report so far.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.schema {
				_, err := cmd.OutOrStdout().Write(replay.Schema())
				return err
			}
			return o.run(cmd, args)
		},
	}
	configFlag(cmd, &o.config)
	o.logs.add(cmd)
	cmd.Flags().StringVar(&o.against, "against", "", "configuration to compare with")
	cmd.Flags().StringVar(&o.peer, "peer", "", "address from which the server that wrote the log connects to Weir:\nfind the client by the client section, in what that server passes on")
	cmd.Flags().BoolVar(&o.enforced, "enforce", false, "take shadow limits for enforced ones")
	cmd.Flags().StringVar(&o.maxRefused, "max-refused", "", "exit 3 if a greater share is refused, as in 0.1%")
	cmd.Flags().StringVar(&o.html, "html", "", "also write the report as an HTML page to this file")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the report as JSON")
	cmd.Flags().BoolVar(&o.schema, "schema", false, "print the JSON Schema of the report")
	_ = cmd.MarkFlagFilename("against", "yaml", "yml") // fails only for a flag that does not exist
	return cmd
}

// garbage is how much of the memory in use may be garbage, in percent of the rest: most of it are tables
// that cost the collector nothing, so that it may come more often than by default.
const garbage = 40

func (o *replaying) run(cmd *cobra.Command, names []string) error {
	if len(names) == 0 {
		return errors.New("no log is named: want files, or - for standard input")
	}
	gate, err := parseShare(o.maxRefused)
	if err != nil {
		return err
	}
	options, err := o.options()
	if err != nil {
		return err
	}
	logs, err := o.logs.open(cmd.Context(), names)
	if err != nil {
		return err
	}
	defer accesslog.CloseAll(logs)
	options.Has = accesslog.Common(logs)
	debug.SetGCPercent(garbage)
	r := replay.New(options)
	defer r.Close()
	failed := readLogs(cmd, r, logs, &o.logs)
	if errors.Is(failed, replay.ErrBroken) {
		return failure{failed}
	}
	report := r.Report(failed != nil)
	if failed == nil && gate < 0 && report.Lines.Read == 0 {
		return failure{fmt.Errorf("%s: the log is empty", strings.Join(names, ", "))}
	}
	if err := o.write(cmd.OutOrStdout(), report); err != nil {
		return failure{err}
	}
	switch {
	case errors.Is(failed, context.Canceled):
		return failure{errors.New("interrupted")}
	case failed != nil:
		return failure{failed}
	case gate >= 0 && report.Lines.Decided == 0:
		return gateNotMet{fmt.Errorf("no request in the log was decided, which proves nothing about --max-refused %s", o.maxRefused)}
	case gate >= 0 && report.Policy.RefusedShare > gate:
		return gateNotMet{fmt.Errorf("%.4f %% of the requests are refused, more than --max-refused %s", 100*report.Policy.RefusedShare, o.maxRefused)}
	}
	return nil
}

// A gateNotMet is a result that the command line does not allow.
type gateNotMet struct{ error }

// parseShare reads a share as 0.1% or 0.001. No text is -1: any share will do.
func parseShare(text string) (float64, error) {
	if text == "" {
		return -1, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("--max-refused %s: want a share, as in 0.1%%", text)
	}
	return share, nil
}

// options loads the policies.
func (o *replaying) options() (replay.Options, error) {
	options := replay.Options{Window: o.logs.window, Strict: o.logs.strict}
	if o.peer != "" {
		peer, err := netip.ParseAddr(o.peer)
		if err != nil {
			return options, fmt.Errorf("--peer %s: want an IP address", o.peer)
		}
		options.Peer = peer.Unmap()
	}
	if o.logs.window <= 0 {
		return options, fmt.Errorf("--window %s: want a time above zero", o.logs.window)
	}
	p, err := o.policy(orDefault(o.config))
	if err != nil {
		return options, err
	}
	options.Policy = p
	if o.against != "" {
		before, err := o.policy(o.against)
		options.Against = &before
		return options, err
	}
	return options, nil
}

// policy compiles the configuration at path for a log.
func (o *replaying) policy(path string) (replay.Policy, error) {
	loaded := app.Load(app.Options{Config: path, Env: os.Environ()})
	if err := loaded.Err(); err != nil {
		return replay.Policy{}, err
	}
	c := *loaded.Config
	if o.peer == "" {
		c.Client = ofLog(c.Client)
	}
	if o.enforced {
		enforce(&c)
	}
	p, problems := policy.Compile(&c)
	if config.HasErrors(problems) {
		return replay.Policy{}, &app.ConfigError{Problems: problems}
	}
	return replay.Policy{Name: loaded.Name, Policy: p, MaxKeys: c.Store.Memory.MaxKeys}, nil
}

// ofLog is a client section by which whom the log calls the client is the client. What makes one
// client of several addresses stays.
func ofLog(c config.Client) config.Client {
	return config.Client{
		HeaderFormat: c.HeaderFormat, IPv4Prefix: c.IPv4Prefix, IPv6Prefix: c.IPv6Prefix, IPv6Tiers: c.IPv6Tiers,
		Unresolved: c.Unresolved, RangesFile: c.RangesFile, Forward: c.Forward,
	}
}

// enforce makes c, a copy, a configuration whose shadow limits refuse.
func enforce(c *config.Config) {
	limits := func(from []config.Limit) []config.Limit {
		to := append([]config.Limit(nil), from...)
		for i := range to {
			to[i].Mode = enforced(to[i].Mode)
		}
		return to
	}
	c.Limits, c.Default.Limits, c.Default.Mode = limits(c.Limits), limits(c.Default.Limits), enforced(c.Default.Mode)
	c.Rules = append([]config.Rule(nil), c.Rules...)
	for i := range c.Rules {
		r := &c.Rules[i]
		r.Mode, r.Limits = enforced(r.Mode), limits(r.Limits)
	}
}

func enforced(mode string) string {
	if mode == "shadow" {
		return "enforce"
	}
	return mode
}

// readLogs replays the logs, with a progress bar on a terminal.
func readLogs(cmd *cobra.Command, r *replay.Replay, logs []*accesslog.Log, f *logFlags) error {
	tellFormats(cmd, logs)
	defer showProgress(sizeOf(logs), &f.read)()
	return r.Read(cmd.Context(), logs...)
}

// tellFormats says which formats were found.
func tellFormats(cmd *cobra.Command, logs []*accesslog.Log) {
	for _, l := range logs {
		if l.Auto != "" {
			tell(cmd.ErrOrStderr(), "%s: format %s (%s) %s\n", l.Name, l.Format.Name, l.Format.About, l.Auto)
		}
	}
}

func (o *replaying) write(w io.Writer, report *replay.Report) error {
	if o.html != "" {
		if err := writeFile(o.html, report.WriteHTML); err != nil {
			return err
		}
	}
	if !o.asJSON {
		return report.WriteText(w)
	}
	enc := json.NewEncoder(plain.JSONTo(w))
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// writeFile writes a file by write.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
