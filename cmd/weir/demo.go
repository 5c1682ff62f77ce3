package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/internal/demo"
)

func demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A tour: each promise shown by real traffic on loopback, and judged",
		Long: "A tour: a sample service, Weir before it, and traffic on loopback that shows each promise with the\n" +
			"figures that were measured. Then it goes on with the dashboard until Ctrl-C. What needs a Redis is shown\n" +
			"where redis-server is on the PATH. Exit code 1 if a promise was not kept.",
		Args: cobra.NoArgs,
		RunE: atRunTime(func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), demo.Options{
				Out: cmd.OutOrStdout(), Terminal: isTerminal(cmd.OutOrStdout()), Plain: os.Getenv("NO_COLOR") != "",
				Program: os.Args[0], Once: once,
			})
		}),
	}
	cmd.Flags().BoolVar(&once, "once", false, "stop after the tour")
	return cmd
}
