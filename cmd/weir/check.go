package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/plain"
)

func checkCommand() *cobra.Command {
	var path string
	var strict, asJSON, schema, print bool
	cmd := &cobra.Command{
		Use:   "check [-c weir.yaml]",
		Short: "Validate a configuration",
		Long: "Validate a configuration: every problem at once, each with its place and its cure.\n" +
			"Exits 2 on an error, 0 with warnings (with --strict: 2).\n\n" +
			"It looks into no database: a start or reload refuses a file, too, that lacks a plan which stored keys have.",
		Args: byFlag,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if schema {
				_, err := out.Write(config.Schema())
				return err
			}
			loaded := app.Load(app.Options{Config: orDefault(path), Env: os.Environ()})
			var err error
			if asJSON {
				err = writeProblems(out, loaded.All())
			} else {
				err = describe(out, cmd.ErrOrStderr(), loaded, print)
			}
			if all := loaded.All(); err == nil && (config.HasErrors(all) || strict && len(all) > 0) {
				err = &app.ConfigError{Silent: true, Problems: all}
			}
			return err
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 2 with warnings, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of the configuration, for editors")
	cmd.Flags().BoolVar(&print, "print", false, "print the configuration in force, with every default and no secret")
	return cmd
}

// describe prints the problems, and what a sound configuration amounts to.
func describe(out, errs io.Writer, l *app.Loaded, print bool) error {
	problems := l.All()
	for _, p := range problems {
		tell(errs, "%s\n", p)
	}
	if config.HasErrors(problems) {
		return nil
	}
	if print {
		text, err := l.Config.Blanked()
		out.Write(text)
		return err
	}
	if l.Fileless {
		fmt.Fprintln(out, "there is no weir.yaml here, and none is named with -c; these are the defaults")
	}
	tell(out, "%s is valid: %s, %s\nclient: %s\n", l.Name, plural(len(l.Config.Rules), "rule"),
		plural(len(problems), "warning"), l.Policy.Resolver().Picture())
	for _, trap := range l.Policy.Resolver().Traps() {
		tell(out, "mind: %s\n", trap)
	}
	return nil
}

func plural(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writeProblems prints the problems as one JSON array.
func writeProblems(w io.Writer, problems []config.Problem) error {
	if problems == nil {
		problems = []config.Problem{}
	}
	enc := json.NewEncoder(plain.JSONTo(w))
	enc.SetIndent("", "  ")
	return enc.Encode(problems)
}
