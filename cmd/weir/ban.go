package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/plain"
)

func banCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ban",
		Short: "Keep clients out of a running Weir, and let them in again",
		Long: "Keep clients out of a running Weir, by address, network or API key, and let them in again. With Redis\n" +
			"a ban holds on every replica within a second, otherwise it is kept in data_dir.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(banAddCommand(), banListCommand(), banRemoveCommand())
	return cmd
}

// A banning is what weir ban add was told.
type banning struct {
	running adminClient
	body    admin.NewBan
	asJSON  bool
}

func banAddCommand() *cobra.Command {
	var b banning
	cmd := &cobra.Command{
		Use:   "add ADDRESS|CIDR|key:ID [--for 10m] [--reason TEXT] [--force]",
		Short: "Ban an address, a network or an API key",
		Long: "Ban an address, a network or an API key. Whom the ban would cut off unmeant (a trusted proxy, this machine,\n" +
			"the address that you ask from, whom allow names) is banned with --force only.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := ban.ParseSubject(args[0])
			if err != nil {
				return err
			}
			if err := b.check(); err != nil {
				return err
			}
			b.body.Subject = s.String()
			return atRunTime(func(cmd *cobra.Command, _ []string) error { return b.add(cmd.Context(), cmd.OutOrStdout()) })(cmd, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.body.For, "for", "", "how long, as in 10m, 24h or 7d; without it until the ban is removed")
	f.StringVar(&b.body.Reason, "reason", "", "why, for operators and the audit log; the banned are not told")
	f.BoolVar(&b.body.Force, "force", false, "ban whoever it is")
	f.BoolVar(&b.asJSON, "json", false, "print the ban as JSON")
	adminFlags(cmd, &b.running)
	return cmd
}

// check returns what is wrong with the flags.
func (b *banning) check() error {
	if b.body.For != "" {
		if _, err := config.ParseDuration(b.body.For); err != nil {
			return fmt.Errorf("--for %w", err)
		}
	}
	return b.running.check()
}

func (b *banning) add(ctx context.Context, out io.Writer) error {
	var made admin.Ban
	if err := b.running.ask(ctx, http.MethodPost, "/api/v1/bans", b.body, &made); err != nil {
		var p *admin.Problem
		if errors.As(err, &p) && p.Code == "protected" {
			p.Detail = strings.Replace(p.Detail, "say force", "say --force", 1)
		}
		return err
	}
	if b.asJSON {
		return json.NewEncoder(plain.JSONTo(out)).Encode(made)
	}
	_, err := fmt.Fprintf(out, "%s is banned %s\n", plain.Text(made.Subject), banEnd(&made))
	return err
}

// banEnd says until when a ban holds.
func banEnd(b *admin.Ban) string {
	if b.Until == nil {
		return "until the ban is removed"
	}
	return "until " + b.Until.Local().Format(time.DateTime)
}

// A listing is what weir ban list was told.
type listing struct {
	running adminClient
	limit   int
	asJSON  bool
}

const mostListed = 10_000 // bans in one answer

func banListCommand() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:   "list [--json]",
		Short: "List who is banned, the newest ban first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.limit < 1 || l.limit > mostListed {
				return fmt.Errorf("--limit %d: want 1 to %d", l.limit, mostListed)
			}
			if err := l.running.check(); err != nil {
				return err
			}
			return atRunTime(func(cmd *cobra.Command, _ []string) error { return l.print(cmd.Context(), cmd.OutOrStdout()) })(cmd, nil)
		},
	}
	cmd.Flags().IntVar(&l.limit, "limit", 1000, "at most so many, up to 10000")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "print as JSON")
	adminFlags(cmd, &l.running)
	return cmd
}

func (l *listing) print(ctx context.Context, out io.Writer) error {
	var bans admin.Bans
	if err := l.running.ask(ctx, http.MethodGet, "/api/v1/bans?limit="+strconv.Itoa(l.limit), nil, &bans); err != nil {
		return err
	}
	if l.asJSON {
		return json.NewEncoder(plain.JSONTo(out)).Encode(bans)
	}
	return tellBans(out, &bans)
}

func tellBans(out io.Writer, bans *admin.Bans) error {
	if bans.Total == 0 {
		_, err := fmt.Fprintln(out, "nobody is banned")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "WHO\tUNTIL\tSINCE\tBY\tREASON")
	for i := range bans.Bans {
		b := &bans.Bans[i]
		until := "removed"
		if b.Until != nil {
			until = b.Until.Local().Format(time.DateTime)
		}
		tell(t, "%s\t%s\t%s\t%s\t%s\n", b.Subject, until, b.Since.Local().Format(time.DateTime), b.Author, b.Reason)
	}
	if err := t.Flush(); err != nil || len(bans.Bans) == bans.Total {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d of %d\n", len(bans.Bans), bans.Total)
	return err
}

// A lifting is what weir ban remove was told.
type lifting struct {
	running         adminClient
	subject, reason string
	asJSON          bool
}

func banRemoveCommand() *cobra.Command {
	var l lifting
	cmd := &cobra.Command{
		Use:   "remove ADDRESS|CIDR|key:ID [--reason TEXT]",
		Short: "Lift a ban",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := ban.ParseSubject(args[0])
			if err != nil {
				return err
			}
			if err := l.running.check(); err != nil {
				return err
			}
			l.subject = s.String()
			return atRunTime(func(cmd *cobra.Command, _ []string) error { return l.remove(cmd.Context(), cmd.OutOrStdout()) })(cmd, nil)
		},
	}
	cmd.Flags().StringVar(&l.reason, "reason", "", "why, for the audit log")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "print what was lifted as JSON")
	adminFlags(cmd, &l.running)
	return cmd
}

func (l *lifting) remove(ctx context.Context, out io.Writer) error {
	var lifted admin.Lifted
	path := "/api/v1/bans/" + url.PathEscape(l.subject) + "?reason=" + url.QueryEscape(l.reason)
	if err := l.running.ask(ctx, http.MethodDelete, path, nil, &lifted); err != nil {
		return err
	}
	if l.asJSON {
		return json.NewEncoder(plain.JSONTo(out)).Encode(lifted)
	}
	if lifted.StillBy != "" {
		_, err := fmt.Fprintf(out, "the ban of %s is lifted, and that of %s still holds for it\n", plain.Text(l.subject), plain.Text(lifted.StillBy))
		return err
	}
	_, err := fmt.Fprintf(out, "the ban of %s is lifted\n", plain.Text(l.subject))
	return err
}
