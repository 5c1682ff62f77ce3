// Command weir is a rate limiter and request shield in front of HTTP services.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/internal/plain"
)

// Exit codes, as the contract with scripts has them.
const (
	exitFailed = 1 // it failed at run time
	exitUsage  = 2 // wrong usage or configuration
	exitGate   = 3 // a gate not met
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals // who asks twice does not want to wait for what is under way
		os.Exit(exitFailed)
	}()
	os.Exit(run(ctx, os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var failed failure
	var gate gateNotMet
	var config *app.ConfigError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &config):
		fmt.Fprint(os.Stderr, plain.Lines(config.Lines())) // each begins with its place
		return exitUsage
	case errors.As(err, &failed):
		fmt.Fprintf(os.Stderr, "weir: %s\n", plain.Lines(err.Error()))
		return exitFailed
	case errors.As(err, &gate):
		fmt.Fprintf(os.Stderr, "weir: %s\n", plain.Lines(err.Error()))
		return exitGate
	}
	fmt.Fprintf(os.Stderr, "weir: %s: see %s -h\n", plain.Lines(err.Error()), cmd.CommandPath())
	return exitUsage
}

// A failure is an error at run time, in distinction from wrong usage.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// atRunTime marks the errors of a command that are not about usage.
func atRunTime(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "A rate limiter and request shield for HTTP services",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(runCommand(), demoCommand(), checkCommand(), explainCommand(), verifyCommand(), topCommand(), keyCommand(), banCommand(), exportCommand(),
		replayCommand(), suggestCommand(), versionCommand())
	root.InitDefaultCompletionCmd("completion")
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.RunE = root.RunE // so that an unknown shell is an error
		}
	}
	return root
}

// defaultConfig is read when no configuration is named and it is there.
const defaultConfig = "weir.yaml"

// configFlag adds the flag that names the configuration file.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "configuration file (default weir.yaml, if it is there)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // fails only for a flag that does not exist
}

// byFlag wants no arguments; a file among them is the configuration that somebody forgot to name with -c.
func byFlag(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(args[0])) {
		return fmt.Errorf("the file is named with -c: %s -c %s", cmd.CommandPath(), args[0])
	}
	return cobra.NoArgs(cmd, args)
}

// orDefault returns path, or the default configuration's path if it is there.
func orDefault(path string) string {
	if path != "" {
		return path
	}
	if _, err := os.Stat(defaultConfig); err == nil {
		return defaultConfig
	}
	return ""
}
