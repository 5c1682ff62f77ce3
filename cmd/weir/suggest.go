package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/replay"
	"github.com/weirgate/weir/replay/accesslog"
)

func suggestCommand() *cobra.Command {
	var logs logFlags
	var o replay.SuggestOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "suggest [--format F] LOG…",
		Short: "Suggest a policy from a recorded access log",
		Long: "Suggest a policy from a recorded access log: a rule for each path group that matters, with limits from what clients\n" +
			"needed, in shadow mode. The log is read twice; standard input (-) is kept in a temporary file meanwhile.",
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case len(names) == 0:
				return errors.New("no log is named: want files, or - for standard input")
			case !slices.Contains(replay.Percentiles, o.At):
				return fmt.Errorf("--at %s: want one of %s", o.At, strings.Join(replay.Percentiles, " "))
			case logs.window <= 0:
				return fmt.Errorf("--window %s: want a time above zero", logs.window)
			}
			o.Window, o.Strict = logs.window, logs.strict
			s, err := suggest(cmd, &logs, o, names)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(plain.JSONTo(cmd.OutOrStdout()))
				enc.SetIndent("", "  ")
				return enc.Encode(s)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), s.Policy)
			return err
		},
	}
	logs.add(cmd)
	cmd.Flags().StringVar(&o.At, "at", "p99.9", "what becomes the limit: "+strings.Join(replay.Percentiles, ", "))
	cmd.Flags().IntVar(&o.Rules, "rules", 12, "most rules")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the policy, and what it was made from, as JSON")
	return cmd
}

// suggest reads the logs twice.
func suggest(cmd *cobra.Command, f *logFlags, o replay.SuggestOptions, names []string) (*replay.Suggestion, error) {
	names, forget, err := keepInput(cmd.InOrStdin(), names)
	if err != nil {
		return nil, failure{err}
	}
	defer forget()
	first, err := f.open(cmd.Context(), names)
	if err != nil {
		return nil, err
	}
	tellFormats(cmd, first)
	defer showProgress(2*sizeOf(first), &f.read)()
	o.Open = func() ([]*accesslog.Log, error) {
		if logs := first; logs != nil {
			first = nil
			return logs, nil
		}
		return f.open(cmd.Context(), names)
	}
	s, err := replay.Suggest(cmd.Context(), o)
	if err != nil {
		return nil, failure{err}
	}
	return s, nil
}

// keepInput writes standard input, if it is among names, to a file that takes its place, and that
// forget removes.
func keepInput(in io.Reader, names []string) (kept []string, forget func(), err error) {
	at := slices.Index(names, "-")
	if at < 0 {
		return names, func() {}, nil
	}
	f, err := os.CreateTemp("", "weir-suggest-*.log")
	if err != nil {
		return nil, nil, err
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, nil, errors.Join(err, os.Remove(f.Name()))
	}
	kept = slices.Clone(names)
	kept[at] = f.Name()
	return kept, func() { _ = os.Remove(f.Name()) }, nil // what stays behind is in a temporary folder
}
