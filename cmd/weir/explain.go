package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/respond"
)

// An asking is a request as the command line describes it.
type asking struct {
	method  string
	headers []string
	remote  string
}

func explainCommand() *cobra.Command {
	var path string
	var asJSON bool
	var ask asking
	cmd := &cobra.Command{
		Use:   "explain [-c weir.yaml] [-X METHOD] [-H 'Name: value']… [--remote ADDR] URL",
		Short: "Tell how a request would be treated, without counting it",
		Args:  oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := ask.request(args[0])
			if err != nil {
				return err
			}
			loaded := app.Load(app.Options{Config: orDefault(path), Env: os.Environ()})
			if err := loaded.Err(); err != nil {
				return err
			}
			d, err := loaded.Explain(cmd.Context(), r, time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return writeDecision(cmd.OutOrStdout(), d)
			}
			return tellDecision(cmd.OutOrStdout(), d, loaded.Policy.Why(d))
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVarP(&ask.method, "request", "X", http.MethodGet, "method")
	cmd.Flags().StringArrayVarP(&ask.headers, "header", "H", nil, "header line, as 'Name: value'; may be repeated")
	cmd.Flags().StringVar(&ask.remote, "remote", "192.0.2.1", "address that connects to Weir")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the decision as JSON")
	return cmd
}

// oneURL wants the one argument of explain.
func oneURL(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("found %d arguments: want one URL, as in http://example.com/api", len(args))
	}
	return nil
}

// request builds what a front would have made of the request.
func (a asking) request(target string) (weir.Request, error) {
	u, err := url.Parse(target)
	var cause *url.Error
	if errors.As(err, &cause) {
		return weir.Request{}, fmt.Errorf("URL %s: %w: want it percent-encoded, as in http://example.com/a%%20b", target, cause.Err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return weir.Request{}, fmt.Errorf("URL %s: want http://HOST/PATH or https://HOST/PATH", target)
	}
	r := weir.Request{
		Front: "proxy", Method: a.method, Scheme: u.Scheme, Host: u.Host, Path: cmp.Or(u.EscapedPath(), "/"), Query: u.RawQuery,
		Header: http.Header{}, Trace: true,
	}
	if r.Peer, r.Unix = weir.ParsePeer(a.remote); !r.Peer.IsValid() && !r.Unix {
		return weir.Request{}, fmt.Errorf("--remote %s: want an IP address, with or without a port, or @ for a unix socket", a.remote)
	}
	if !clientip.IsToken(a.method) {
		return weir.Request{}, fmt.Errorf("-X %q: want a method, as in POST", a.method)
	}
	for _, line := range a.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !clientip.IsToken(name) {
			return weir.Request{}, fmt.Errorf("-H %q: want 'Name: value'", line)
		}
		if value = strings.TrimSpace(value); strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	return r, nil
}

func writeDecision(w io.Writer, d *weir.Decision) error {
	text, err := respond.MarshalDecision(d)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// tellDecision prints the decision for people.
func tellDecision(w io.Writer, d *weir.Decision, why string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "client\t%s\tfound: %s\n", d.Client.Key(), d.Client.Source)
	for _, h := range d.Client.Hops {
		fmt.Fprintf(t, "\t%s\t%s, named by %s\n", h.Address, trustWord(h.Trusted), h.By)
	}
	for _, note := range clientip.Notes(d.Client.Chain.Codes) {
		fmt.Fprintf(t, "\tnoted\t%s\n\t\t%s\n", note.Code.Names()[0], note.Text)
	}
	if d.Rule != nil {
		fmt.Fprintf(t, "rule\t%s\thost %s, path %s, method %s: %s\n", d.Rule.Name, d.Rule.Host, d.Rule.Path, d.Rule.Method, why)
	}
	for i := range d.Statuses {
		s := &d.Statuses[i]
		fmt.Fprintf(t, "limit\t%s\t%s %s %s, cost %d, %d of %d left%s\n", s.Limit.Name, s.Limit.Rate, s.Limit.Algorithm, s.Limit.Mode,
			d.Hits[i].N, s.Remaining, s.Limit.Capacity(), refusedWord(s))
		fmt.Fprintf(t, "\tkey\t%s\n", d.Hits[i].Key)
	}
	tellInspection(t, &d.Inspection)
	fmt.Fprintf(t, "action\t%s\t%s, HTTP status %d\n", d.Action, d.Reason, d.HTTP)
	return t.Flush()
}

// tellInspection prints what the firewall found.
func tellInspection(w io.Writer, i *weir.Inspection) {
	if i.Verdict == weir.Uninspected {
		fmt.Fprintln(w, "waf\toff\tthe request is not inspected")
		return
	}
	fmt.Fprintf(w, "waf\t%s\truleset %s, score %d, inspected %s\n", i.Verdict, i.Ruleset, i.Score, i.Inspected)
	if i.Refused != "" {
		fmt.Fprintf(w, "\t%s\t%s\n", i.Refused, i.Detail)
	}
	for _, m := range i.Matches {
		fmt.Fprintf(w, "\t%s\t%s in %s %s, score %d: %s\n", m.Rule, m.Class, m.Location, m.Name, m.Score, m.Fragment)
	}
}

func trustWord(trusted bool) string {
	if trusted {
		return "trusted"
	}
	return "not trusted"
}

func refusedWord(s *weir.Status) string {
	if s.Allowed {
		return ""
	}
	return ", refuses"
}
