package main

import (
	"log"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/app"
)

func runCommand() *cobra.Command {
	o := app.Options{Env: os.Environ(), Version: thisBuild().Version}
	var upstream, listen, admin string
	cmd := &cobra.Command{
		Use:   "run [-c weir.yaml] [--upstream URL] [--listen ADDR] [--admin ADDR]",
		Short: "Run every front that the configuration names",
		Long: "Run every front that the configuration names. With --upstream alone, and no file, that\n" +
			"service is put behind 127.0.0.1:8080 with the default policy: 300 requests per minute and\n" +
			"client address, and the firewall's fast rules.\n\n" +
			"SIGHUP or a changed file reloads; a broken file changes nothing. SIGTERM drains and stops.",
		Args: byFlag,
		RunE: atRunTime(func(cmd *cobra.Command, _ []string) error {
			o.Config = orDefault(o.Config)
			o.Log = cmd.ErrOrStderr()
			o.Upstream, o.Listen, o.Admin = given(cmd, "upstream", &upstream), given(cmd, "listen", &listen), given(cmd, "admin", &admin)
			a, err := app.Start(o)
			if err != nil {
				return err
			}
			log.SetFlags(0)
			log.SetOutput(a.StandardLog())
			return a.Run(cmd.Context())
		}),
	}
	configFlag(cmd, &o.Config)
	cmd.Flags().StringVar(&upstream, "upstream", "", "URL of the service to put behind Weir")
	cmd.Flags().StringVar(&listen, "listen", "", "address of the reverse-proxy front")
	cmd.Flags().StringVar(&admin, "admin", "", "address of metrics and health; '' for none")
	return cmd
}

// given returns the flag's value, which may be empty, or nil if the command line lacks the flag.
func given(cmd *cobra.Command, flag string, value *string) *string {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}
