package main

import (
	"cmp"
	"encoding/json"
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
	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/internal/plain"
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
	var asJSON, live bool
	var ask asking
	var running adminClient
	cmd := &cobra.Command{
		Use:   "explain [-c weir.yaml] [-X METHOD] [-H 'Name: value']… [--remote ADDR] URL",
		Short: "Tell how a request would be treated, without counting it",
		Args:  oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := ask.request(args[0])
			if err != nil {
				return err
			}
			if live {
				return explainLive(cmd, &running, &ask, args[0], asJSON)
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
			return tellDecision(cmd.OutOrStdout(), admin.Explain(loaded.Policy, d), d)
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVarP(&ask.method, "request", "X", http.MethodGet, "method")
	cmd.Flags().StringArrayVarP(&ask.headers, "header", "H", nil, "header line, as 'Name: value'; may be repeated")
	cmd.Flags().StringVar(&ask.remote, "remote", "192.0.2.1", "address that connects to Weir")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the decision as JSON")
	cmd.Flags().BoolVar(&live, "live", false, "ask the Weir at --admin, with its counters as they stand")
	adminFlags(cmd, &running)
	cmd.MarkFlagsMutuallyExclusive("live", "config")
	return cmd
}

// explainLive asks a running Weir, which counts nothing either.
func explainLive(cmd *cobra.Command, running *adminClient, ask *asking, target string, asJSON bool) error {
	if err := running.check(); err != nil {
		return err
	}
	q := admin.Question{Method: ask.method, URL: target, Remote: ask.remote}
	for _, line := range ask.headers {
		name, value, _ := strings.Cut(line, ":") // it was checked
		q.Headers = append(q.Headers, admin.FieldLine{Name: name, Value: strings.TrimSpace(value)})
	}
	return atRunTime(func(cmd *cobra.Command, _ []string) error {
		var e admin.Explanation
		if err := running.ask(cmd.Context(), http.MethodPost, "/api/v1/explain", q, &e); err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(plain.JSONTo(cmd.OutOrStdout())).Encode(e.Decision)
		}
		return tellDecision(cmd.OutOrStdout(), e, nil)
	})(cmd, nil)
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
	_, err = w.Write(append(plain.JSON(nil, text), '\n'))
	return err
}

// tellDecision prints the decision for people. d is nil where another process made it.
func tellDecision(w io.Writer, e admin.Explanation, d *weir.Decision) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	tell(t, "client\t%s\tfound: %s\n", e.Client.Key, e.Client.Source)
	if e.Client.APIKey != nil {
		tell(t, "\tkey\t%s%s\n", *e.Client.APIKey, planWord(e.Client.Plan))
	}
	for _, h := range e.Client.Hops {
		tell(t, "\t%s\t%s, named by %s\n", h.Address, trustWord(h.Trusted), h.By)
	}
	for _, note := range e.Notes {
		tell(t, "\tnoted\t%s\n\t\t%s\n", note.Code, note.Text)
	}
	if m := e.MatchedBy; m != nil {
		tell(t, "rule\t%s\thost %s, path %s, method %s: %s\n", *e.Rule, m.Host, m.Path, m.Method, e.Why)
	}
	for i, l := range e.Limits {
		left := fmt.Sprint(l.Remaining)
		if d != nil {
			left = fmt.Sprintf("%d of %d", l.Remaining, d.Statuses[i].Limit.Capacity())
		}
		tell(t, "limit\t%s\t%s %s %s, cost %d, %s left%s\n", l.Name, l.Rate, l.Algorithm, l.Mode, l.Cost, left, refusedWord(l.Allowed))
		tell(t, "\tkey\t%s\n", l.Key)
	}
	tellFirewall(t, e, d)
	tell(t, "action\t%s\t%s, HTTP status %d\n", e.Action, e.Reason, e.Status)
	return t.Flush()
}

// tellFirewall prints what the firewall found, and all of it where the decision was made here.
func tellFirewall(w io.Writer, e admin.Explanation, d *weir.Decision) {
	switch {
	case d != nil:
		tellInspection(w, &d.Inspection)
	case e.WAF.Ruleset == nil || e.WAF.Inspected == nil:
		tell(w, "waf\t%s\tthe request is not inspected\n", e.WAF.Verdict)
	default:
		tell(w, "waf\t%s\truleset %s, inspected %s %s\n", e.WAF.Verdict, *e.WAF.Ruleset, *e.WAF.Inspected, strings.Join(e.WAF.Rules, ", "))
	}
}

// tellInspection prints what the firewall found.
func tellInspection(w io.Writer, i *weir.Inspection) {
	if i.Verdict == weir.Uninspected {
		fmt.Fprintln(w, "waf\toff\tthe request is not inspected")
		return
	}
	tell(w, "waf\t%s\truleset %s, score %d, inspected %s\n", i.Verdict, i.Ruleset, i.Score, i.Inspected)
	if i.Refused != "" {
		tell(w, "\t%s\t%s\n", i.Refused, i.Detail)
	}
	for _, m := range i.Matches {
		tell(w, "\t%s\t%s in %s %s, score %d: %s\n", m.Rule, m.Class, m.Location, m.Name, m.Score, m.Fragment)
	}
}

func planWord(plan *string) string {
	if plan == nil {
		return ""
	}
	return ", plan " + *plan
}

func trustWord(trusted bool) string {
	if trusted {
		return "trusted"
	}
	return "not trusted"
}

func refusedWord(allowed bool) string {
	if allowed {
		return ""
	}
	return ", refuses"
}
