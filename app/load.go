package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/embedded/shared"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/envoyrls/environment"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/store/memory"
)

// A Loaded is a configuration that was read, what it compiles to, and what is wrong with it.
type Loaded struct {
	Name     string // of the file, or what stands for it
	Config   *config.Config
	Policy   *policy.Policy // nil if there is an error among the problems
	Problems []config.Problem

	Fileless    bool                  // there is no configuration file
	RLS         *environment.Settings // of the rate limit service, if there is one
	Descriptors []config.Problem      // what is wrong with the files of its descriptors
	DropIn      bool                  // the environment is that of envoyproxy/ratelimit, and there is no file
}

// commandLine is the file of problems that the command line gives rise to.
const commandLine = "command line"

// All returns the problems, those of the descriptors among them, by their places.
func (l *Loaded) All() []config.Problem {
	all := slices.Concat(l.Problems, l.Descriptors)
	config.SortProblems(all)
	return all
}

// Err returns the errors among all problems as one error, or nil.
func (l *Loaded) Err() error {
	all := l.All()
	if !config.HasErrors(all) {
		return nil
	}
	return &ConfigError{Problems: all}
}

// bare says that the rate limit service starts without descriptors while those that there are cannot be used, as
// envoyproxy/ratelimit does: it is not healthy, and waits for their files to be mended.
func (l *Loaded) bare() bool {
	return l.DropIn || l.RLS != nil && l.RLS.ForceStartWithoutInitialConfig
}

// serves returns an error if there is nothing that the configuration could serve.
func (l *Loaded) serves() error {
	var p config.Problem
	switch c := l.Config; {
	case cmp.Or(c.ForwardAuth.Listen, c.RLS.Listen, c.ExtAuthz.Listen, c.SPOE.Listen) != "" && c.Listen == "":
		return nil
	case l.Fileless && c.Listen == "":
		p = config.Problem{File: commandLine, What: "nothing to serve: there is neither --upstream nor a configuration",
			Cure: "give --upstream http://127.0.0.1:3000, or -c weir.yaml"}
	case c.Listen == "":
		p = c.Problem("listen", "no front is configured", "give listen and upstream, as in listen: \":8080\"")
	case c.Upstream == "" && len(c.Routes) == 0:
		p = c.Problem("upstream", "there is nothing to forward requests to",
			"give the URL of your service, as in upstream: \"http://127.0.0.1:3000\"")
	default:
		return nil
	}
	return &ConfigError{Problems: []config.Problem{p}}
}

// A ConfigError is a configuration that cannot be used, with every reason.
type ConfigError struct {
	Problems []config.Problem
	Silent   bool // the problems were shown already
}

func (e *ConfigError) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		if !p.Warning {
			lines = append(lines, p.String())
		}
	}
	return strings.Join(lines, "\n")
}

// Lines returns what is to be shown: a line per problem, or nothing if they were shown already.
func (e *ConfigError) Lines() string {
	if e.Silent {
		return ""
	}
	return e.Error() + "\n"
}

// Load reads and compiles the configuration that o names. What is wrong with it, a file that cannot
// be read among it, are problems of the result, all of them at once.
func Load(o Options) *Loaded {
	l := &Loaded{Name: cmp.Or(o.Config, "defaults"), Fileless: o.Config == ""}
	l.Config, l.Problems = o.read()
	p, problems := policy.Compile(l.Config)
	l.Problems = slices.Concat(l.Problems, problems, certificate(l.Config), keySet(l.Config))
	l.Problems = append(l.Problems, shared.Check(l.Config)...)
	l.Problems = append(l.Problems, expired(l.Config, time.Now())...)
	l.loadRLS(o.Env)
	l.DropIn = l.Fileless && environment.Present(o.Env)
	config.SortProblems(l.Problems)
	if !config.HasErrors(l.Problems) {
		l.Policy = p
	}
	return l
}

// certificate warns of a certificate that cannot be used here. It may well be where the configuration
// is used.
func certificate(c *config.Config) []config.Problem {
	field, name := "tls.cert", c.TLS.Cert
	if name == "" || c.TLS.Key == "" {
		return nil
	}
	_, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err == nil {
		return nil
	}
	var file *fs.PathError
	if errors.As(err, &file) && file.Path == c.TLS.Key {
		field, name = "tls.key", c.TLS.Key
	}
	what := fmt.Sprintf("%s cannot be used here (%s)", name, reason(err))
	return []config.Problem{c.Warn(field, what, "name PEM files that belong together and can be read where Weir runs")}
}

// expired warns of exclusions of the firewall whose time is over at now.
func expired(c *config.Config, now time.Time) (problems []config.Problem) {
	for i, e := range embedded.Exclusions(c.WAF.Exclude) {
		if !e.Until.IsZero() && !now.Before(e.Until) {
			problems = append(problems, c.Warn(fmt.Sprintf("waf.exclude[%d].until", i), c.WAF.Exclude[i].Until+" is over, and the rule is in force again",
				"take the exclusion away, or look at it once more and give it another day"))
		}
	}
	return problems
}

func (o Options) read() (*config.Config, []config.Problem) {
	env, flags := o.environment()
	if o.Config == "" {
		c, problems := config.Parse("defaults", nil, env)
		return c, fromFlags(problems, flags)
	}
	c, problems, err := config.Load(o.Config, env)
	if err != nil {
		return config.Default(), []config.Problem{{File: o.Config, What: reason(err), Cure: "name a file that can be read with -c"}}
	}
	return c, fromFlags(problems, flags)
}

// reason returns why a file cannot be read, without its name.
func reason(err error) string {
	var cause syscall.Errno
	if errors.As(err, &cause) {
		return cause.Error()
	}
	return err.Error()
}

// fromFlags gives problems with variables that stand for flags the flags' names.
func fromFlags(problems []config.Problem, flags map[string]string) []config.Problem {
	for i, p := range problems {
		if flag, ok := flags[p.Field]; ok {
			problems[i].File, problems[i].Field = commandLine, flag
		}
	}
	return problems
}

// environment returns the environment in which the command line's words override the rest, and the
// flags that stand for its variables. A service given on the command line, without a file or a variable
// to say where, is served on loopback.
func (o Options) environment() (env []string, flags map[string]string) {
	flags = map[string]string{}
	if o.Config == "" {
		env = instead(o.Env)
	}
	if o.Config == "" && o.Upstream != nil && *o.Upstream != "" {
		env = append(env, "WEIR_LISTEN=127.0.0.1:8080")
	}
	env = append(env, o.Env...) // the last of a name counts
	override := func(variable, flag string, value *string) {
		if value != nil {
			env, flags[variable] = append(env, variable+"="+*value), flag
		}
	}
	override("WEIR_LISTEN", "--listen", o.Listen)
	override("WEIR_UPSTREAM", "--upstream", o.Upstream)
	override("WEIR_ADMIN", "--admin", o.Admin)
	return env, flags
}

// Explain decides req at now by the loaded configuration over an empty store, and counts nothing. The
// firewall sees the URL and the header. An error means that it could not be loaded.
func (l *Loaded) Explain(ctx context.Context, req weir.Request, now time.Time) (*weir.Decision, error) {
	store := memory.New(memory.Options{MaxKeys: 1})
	defer store.Close()
	shield, err := embedded.NewFirewalls(l.Config, l.Policy, coreRules, nil)
	if err != nil {
		return nil, err
	}
	var a App // of which only what proves tokens is needed
	defer func() { a.tokens.close() }()
	a.log = slog.New(slog.DiscardHandler)
	s := (&engine.Snapshot{Policy: l.Policy, Store: store, Firewalls: shield.All, Verifier: a.verifier(l.Config, nil)}).Peeking()
	e := engine.New(s, journal.Discard(), func() time.Time { return now })
	d := e.Decide(ctx, s, req)
	e.Inspect(ctx, s, d, engine.Content{Proto: "HTTP/1.1", Absent: true})
	return d, shield.CloseUnused(nil)
}
