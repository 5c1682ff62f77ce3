package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/internal/verify"
)

func verifyCommand() *cobra.Command {
	var c adminClient
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "verify URL [--admin URL]",
		Short: "Prove by one request through the real proxies whether clients are found right",
		Long: "Prove by one request through the real proxies whether clients are found right.\n\n" +
			"The request goes to URL, which is to be the address that clients use, and bears a forged address in\n" +
			"every header that may name a client. The Weir behind the proxies, asked at --admin, tells how it\n" +
			"arrived. Exit code 1 if a forged address was believed\n" +
			"(with --strict: whatever else is wrong, too).",
		Args: oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := (asking{method: http.MethodGet, remote: "@"}).request(args[0]); err != nil {
				return err
			}
			if err := c.check(); err != nil {
				return err
			}
			return atRunTime(func(cmd *cobra.Command, args []string) error {
				r, err := verifyThrough(cmd.Context(), &c, args[0])
				if err != nil {
					return err
				}
				if err := tellReport(cmd.OutOrStdout(), r, asJSON); err != nil || r.Right || !strict {
					return err
				}
				return errors.New("the client is not found right")
			})(cmd, args)
		},
	}
	adminFlags(cmd, &c)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 1 with every verdict that is wrong")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

const (
	arrivalWait = 5 * time.Second // for the request to reach Weir
	arrivalLook = 100 * time.Millisecond
)

// verifyThrough sends a forged request to target and returns what it proved.
func verifyThrough(ctx context.Context, c *adminClient, target string) (*verify.Report, error) {
	var n admin.Nonce
	if err := c.ask(ctx, http.MethodPost, "/api/v1/verify", admin.Change{}, &n); err != nil {
		return nil, err
	}
	f := verify.Forge()
	f.Header.Set(n.Header, n.Nonce)
	answered, err := sendForged(ctx, target, f.Header)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(arrivalWait); ; {
		var seen admin.Sighting
		err := c.ask(ctx, http.MethodGet, "/api/v1/verify/"+url.PathEscape(n.Nonce), nil, &seen)
		if err == nil {
			r := verify.Judge(&f, &seen)
			return &r, nil
		}
		var p *admin.Problem
		if !errors.As(err, &p) || p.Status != http.StatusNotFound {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s answered %s, but the request did not reach the Weir at %s: does it lead there?", target, answered, c.base)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(arrivalLook):
		}
	}
}

// sendForged sends the request and returns how it was answered. It speaks HTTP/1.1, whose connection
// options tell whether a proxy stands between, and follows no redirect.
func sendForged(ctx context.Context, target string, header http.Header) (answered string, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	r.Header = header.Clone()
	r.Header.Set("User-Agent", "weir verify")
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answered = res.Status
	if to := res.Header.Get("Location"); to != "" {
		answered += " to " + to
	}
	return answered, nil
}

// tellReport prints what was proved. A forged address that was believed is an error.
func tellReport(w io.Writer, r *verify.Report, asJSON bool) error {
	var err error
	if asJSON {
		err = json.NewEncoder(plain.JSONTo(w)).Encode(r)
	} else {
		err = tellProof(w, r)
	}
	if err == nil && r.Believed != "" {
		err = fmt.Errorf("a forged address was believed: that of %s", r.Believed)
	}
	return err
}

func tellProof(w io.Writer, r *verify.Report) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	tell(t, "arrived\tthrough %s, from %s\n", r.Front, r.Peer)
	tell(t, "proxies\t%s\n", deed(r))
	if len(r.Chain) > 0 {
		tell(t, "\tX-Forwarded-For: %s\n", strings.Join(r.Chain, ", "))
	}
	tell(t, "resolved\t%s, %s, named by %s\n", r.Resolved, r.Source, r.By)
	tell(t, "verdict\t%s\n", verdict(r))
	if len(r.Survives) > 0 {
		tell(t, "survive\t%s: what your service must not read where it is not behind Weir's proxy\n", few(r.Survives))
	}
	for _, note := range r.Notes {
		tell(t, "note\t%s\n", note)
	}
	if err := t.Flush(); err != nil || r.Paste == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s", map[bool]string{true: "The same, by position:", false: "What fits:"}[r.Right], plain.Lines(r.Paste))
	return err
}

// fewNames of a list are printed.
const fewNames = 4

// few writes a list, cut short: the rest is in the JSON.
func few(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more headers", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// deed says what the proxies do.
func deed(r *verify.Report) string {
	entries := fmt.Sprintf("%d entries", r.Appended)
	if r.Appended == 1 {
		entries = "1 entry"
	}
	switch r.Does {
	case verify.Appends:
		return "append " + entries + " to X-Forwarded-For: from_right: " + fmt.Sprint(r.Appended)
	case verify.Overwrites:
		return "overwrite X-Forwarded-For and write " + entries + ": from_right: " + fmt.Sprint(r.Appended)
	case verify.Removes:
		return "remove X-Forwarded-For and write none"
	case verify.PassesOn:
		return "do nothing to X-Forwarded-For: it arrives as the client sends it"
	}
	return "none stands between"
}

func verdict(r *verify.Report) string {
	switch {
	case r.Believed != "":
		return "WRONG: the forged address of " + r.Believed + " was believed: clients choose who they are"
	case r.Client == "":
		return "WRONG: nothing that arrives names the client"
	case !r.Right:
		return "WRONG: the client is " + r.Client + ", named by " + r.Named
	}
	return "right"
}
