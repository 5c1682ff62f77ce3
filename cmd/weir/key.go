package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/localdb"
)

// A keyDesk is where a command about API keys is carried out: by a running Weir or, with a configuration, in its
// database.
type keyDesk struct {
	running adminClient
	config  string
	asJSON  bool
	reason  string
}

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Create, list, show, revoke and rotate API keys",
		Long: "Create, list, show, revoke and rotate API keys: through the admin API of a running Weir, or with -c\n" +
			"in the database that the configuration names, which is held by a running Weir unless it is PostgreSQL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(keyCreateCommand(), keyListCommand(), keyShowCommand(), keyRevokeCommand(), keyRotateCommand())
	return cmd
}

// keyFlags adds the flags that every command about keys has.
func keyFlags(cmd *cobra.Command, d *keyDesk) {
	adminFlags(cmd, &d.running)
	cmd.Flags().StringVarP(&d.config, "config", "c", "", "configuration file: go to its database, where no Weir runs")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // fails only for a flag that does not exist
	cmd.Flags().BoolVar(&d.asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("admin", "config")
}

// changeFlags adds those of a command that changes something.
func changeFlags(cmd *cobra.Command, d *keyDesk) {
	keyFlags(cmd, d)
	cmd.Flags().StringVar(&d.reason, "reason", "", "for the audit log")
}

func keyCreateCommand() *cobra.Command {
	var d keyDesk
	var spec admin.NewKey
	var expires string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an API key and print it, this once",
		Args:  oneName,
		RunE: d.running.checked(func(cmd *cobra.Command, args []string) error {
			lasts, err := keySpan("--expires", expires)
			if err != nil {
				return err
			}
			if spec.Name, spec.Reason = args[0], d.reason; lasts > 0 {
				spec.Expires = time.Now().Add(lasts).UTC().Truncate(time.Second)
			}
			return atRunTime(func(cmd *cobra.Command, _ []string) error {
				return d.secret(cmd, http.MethodPost, "/api/v1/keys", spec)
			})(cmd, nil)
		}),
	}
	changeFlags(cmd, &d)
	cmd.Flags().StringVar(&spec.Owner, "owner", "", "whose it is")
	cmd.Flags().StringVar(&spec.Plan, "plan", "", "plan of the configuration")
	cmd.Flags().StringArrayVar(&spec.Scopes, "scope", nil, "what it may be used for; may be repeated")
	cmd.Flags().StringVar(&expires, "expires", "", "after how long it ends, as in 90d; not given: never")
	return cmd
}

func keyListCommand() *cobra.Command {
	var d keyDesk
	var owner, plan string
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List API keys, those that are revoked left out",
		Args:  cobra.NoArgs,
		RunE: d.running.checked(atRunTime(func(cmd *cobra.Command, _ []string) error {
			keys, err := d.list(cmd.Context(), url.Values{"owner": {owner}, "plan": {plan}})
			if err != nil {
				return err
			}
			found := len(keys)
			if !all {
				keys = slices.DeleteFunc(keys, func(k admin.Key) bool { return k.State == "revoked" })
			}
			slices.SortFunc(keys, func(a, b admin.Key) int { return a.Created.Compare(b.Created) })
			if d.asJSON {
				return json.NewEncoder(plain.JSONTo(cmd.OutOrStdout())).Encode(admin.Keys{Keys: append([]admin.Key{}, keys...)})
			}
			if err := tellKeys(cmd.OutOrStdout(), keys); err != nil || found == len(keys) {
				return err
			}
			tell(cmd.ErrOrStderr(), "%s not shown: --all\n", plural(found-len(keys), "revoked key"))
			return nil
		})),
	}
	keyFlags(cmd, &d)
	cmd.Flags().StringVar(&owner, "owner", "", "of this owner alone")
	cmd.Flags().StringVar(&plan, "plan", "", "of this plan alone")
	cmd.Flags().BoolVar(&all, "all", false, "revoked ones, too")
	return cmd
}

func keyShowCommand() *cobra.Command {
	var d keyDesk
	cmd := &cobra.Command{
		Use:   "show ID|NAME",
		Short: "Show an API key, without the key itself, which nobody keeps",
		Args:  oneName,
		RunE: d.running.checked(atRunTime(func(cmd *cobra.Command, args []string) error {
			return d.key(cmd, args[0], http.MethodGet, nil)
		})),
		ValidArgsFunction: d.complete,
	}
	keyFlags(cmd, &d)
	return cmd
}

func keyRevokeCommand() *cobra.Command {
	var d keyDesk
	cmd := &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Revoke an API key, at once and for ever",
		Args:  oneName,
		RunE: d.running.checked(atRunTime(func(cmd *cobra.Command, args []string) error {
			return d.key(cmd, args[0], http.MethodDelete, url.Values{"reason": {d.reason}})
		})),
		ValidArgsFunction: d.complete,
	}
	changeFlags(cmd, &d)
	return cmd
}

func keyRotateCommand() *cobra.Command {
	var d keyDesk
	var overlap string
	cmd := &cobra.Command{
		Use:   "rotate ID|NAME",
		Short: "Give an API key a new secret and print it, this once",
		Long:  "Give an API key a new secret and print it, this once. The old one stays good for --overlap; id, plan and\ncounts stay as they are.",
		Args:  oneName,
		RunE: d.running.checked(func(cmd *cobra.Command, args []string) error {
			stays, err := keySpan("--overlap", overlap)
			if err != nil {
				return err
			}
			return atRunTime(func(cmd *cobra.Command, _ []string) error {
				id, err := d.find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return d.secret(cmd, http.MethodPost, "/api/v1/keys/"+url.PathEscape(id)+"/rotate", admin.Rotation{Overlap: stays.Seconds(), Reason: d.reason})
			})(cmd, nil)
		}),
		ValidArgsFunction: d.complete,
	}
	changeFlags(cmd, &d)
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "how long the old one stays good, at most 90d; 0s: not at all")
	return cmd
}

// oneName wants the one argument of a command about a key.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("found %d arguments: want %s", len(args), strings.TrimPrefix(cmd.Use, cmd.Name()+" "))
	}
	return nil
}

// keySpan reads a duration as the configuration writes it; empty is 0.
func keySpan(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	return time.Duration(d), nil
}

// checked returns do behind a look at the flags.
func (c *adminClient) checked(do func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := c.check(); err != nil {
			return err
		}
		return do(cmd, args)
	}
}

// ask asks where the command is carried out.
func (d *keyDesk) ask(ctx context.Context, method, path string, body, out any) error {
	if d.config == "" {
		return d.running.ask(ctx, method, path, body, out)
	}
	api, closeAll, err := app.OpenKeys(app.Options{Config: d.config, Env: os.Environ()})
	if errors.Is(err, localdb.ErrLocked) {
		return fmt.Errorf("%w: leave -c away to ask the Weir that runs", err)
	}
	if err != nil {
		return err
	}
	direct := d.running
	direct.base, direct.tokenFile, direct.direct = "http://localhost", "", api
	return errors.Join(direct.ask(ctx, method, path, body, out), closeAll())
}

// secret asks for a key with its secret, and prints it.
func (d *keyDesk) secret(cmd *cobra.Command, method, path string, body any) error {
	var made admin.KeyWithSecret
	if err := d.ask(cmd.Context(), method, path, body, &made); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if d.asJSON {
		return json.NewEncoder(plain.JSONTo(out)).Encode(made)
	}
	if _, err := fmt.Fprintln(out, plain.Text(made.Secret)); err != nil {
		return err
	}
	tell(cmd.ErrOrStderr(), "This is key %s, %s. It is not shown again.\n", made.ID, made.Name)
	if made.OldUntil != nil && made.OldUntil.After(time.Now()) {
		tell(cmd.ErrOrStderr(), "The one before is good until %s.\n", made.OldUntil.Local().Format(time.DateTime))
	}
	return nil
}

// key asks about the key that is called so, and prints it.
func (d *keyDesk) key(cmd *cobra.Command, name, method string, query url.Values) error {
	id, err := d.find(cmd.Context(), name)
	if err != nil {
		return err
	}
	path := "/api/v1/keys/" + url.PathEscape(id)
	if query != nil {
		path += "?" + query.Encode()
	}
	var k admin.Key
	if err := d.ask(cmd.Context(), method, path, nil, &k); err != nil {
		return err
	}
	if d.asJSON {
		return json.NewEncoder(plain.JSONTo(cmd.OutOrStdout())).Encode(k)
	}
	return tellKey(cmd.OutOrStdout(), &k)
}

// find returns the id of the key that is called so: by id, by the one live name, or by the key itself.
func (d *keyDesk) find(ctx context.Context, name string) (string, error) {
	if id, ok := apikey.IDOf(name); ok {
		return id, nil
	}
	if isKeyID(name) && d.ask(ctx, http.MethodGet, "/api/v1/keys/"+name, nil, new(admin.Key)) == nil {
		return name, nil
	}
	keys, err := d.list(ctx, nil)
	if err != nil {
		return "", err
	}
	keys = slices.DeleteFunc(keys, func(k admin.Key) bool { return k.Name != name || k.State == "revoked" })
	switch len(keys) {
	case 0:
		return "", fmt.Errorf("no key has the id or name %s", plain.Text(name))
	case 1:
		return keys[0].ID, nil
	}
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return "", fmt.Errorf("%d keys are called %s: give one of the ids %s", len(ids), plain.Text(name), strings.Join(ids, ", "))
}

// isKeyID reports whether a name could be an id.
func isKeyID(name string) bool {
	return len(name) == 12 && strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// list returns all keys that a query asks for.
func (d *keyDesk) list(ctx context.Context, query url.Values) ([]admin.Key, error) {
	q := url.Values{"limit": {"1000"}}
	for name, values := range query {
		q[name] = values
	}
	var keys []admin.Key
	for {
		var page admin.Keys
		if err := d.ask(ctx, http.MethodGet, "/api/v1/keys?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		if keys = append(keys, page.Keys...); page.Next == "" {
			return keys, nil
		}
		q.Set("after", page.Next)
	}
}

// complete offers the ids of keys, with their names.
func (d *keyDesk) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	if len(args) == 0 {
		keys, _ := d.list(cmd.Context(), nil) // nobody reads errors in the middle of a line
		for _, k := range keys {
			if k.State != "revoked" {
				offers = append(offers, k.ID+"\t"+plain.Text(k.Name))
			}
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func tellKeys(out io.Writer, keys []admin.Key) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tOWNER\tPLAN\tSCOPES\tSTATE\tEXPIRES\tLAST USED")
	for _, k := range keys {
		tell(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Owner, k.Plan,
			strings.Join(k.Scopes, " "), k.State, when(k.Expires), when(k.LastUsed))
	}
	return t.Flush()
}

func tellKey(out io.Writer, k *admin.Key) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, line := range [][2]string{
		{"id", k.ID}, {"name", k.Name}, {"owner", k.Owner}, {"plan", k.Plan}, {"scopes", strings.Join(k.Scopes, " ")}, {"state", k.State},
		{"created", when(&k.Created)}, {"expires", when(k.Expires)}, {"revoked", when(k.Revoked)}, {"last used", when(k.LastUsed)}, {"old key until", when(k.OldUntil)},
	} {
		if line[1] != "" {
			tell(t, "%s\t%s\n", line[0], line[1])
		}
	}
	return t.Flush()
}

// when is a time for people, or nothing.
func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
