package demo

import (
	"context"
	"fmt"
	"os"

	"github.com/weirgate/weir/app"
	"github.com/weirgate/weir/replay"
	"github.com/weirgate/weir/replay/accesslog"
)

// replayed feeds the access log of the tour through a stricter policy.
func replayed(ctx context.Context, s *stage) error {
	if err := os.WriteFile(s.path("strict.yaml"), []byte(s.strict()), 0o600); err != nil {
		return err
	}
	report, err := s.replay(ctx)
	if err != nil {
		return err
	}
	before, after := report.Against, &report.Policy
	s.voice.say("The access log of this tour (%s lines, of %d clients) through strict.yaml, which halves the limits and enforces the one on trial, beside weir.yaml:", count(int(report.Lines.Decided)), after.Clients.Seen)
	s.voice.table(
		[]string{"", "admitted", "refused", "clients refused"},
		[]string{"weir.yaml", count(int(before.Admitted)), count(int(before.Refused)), count(int(before.Clients.Hurt))},
		[]string{"strict.yaml", count(int(after.Admitted)), count(int(after.Refused)), count(int(after.Clients.Hurt))},
	)
	if len(report.Comparison.Suffer) > 0 {
		h := report.Comparison.Suffer[0]
		s.voice.say("Newly hurt: %s at %s, refused %d times.", h.Client, h.Rule, h.Refused)
	}
	s.want("lines that are decided", int(report.Lines.Decided), int(s.logged.Load()))
	s.want("requests that only weir.yaml refuses", int(report.Comparison.NewlyPassed), 0)
	s.want("clients that strict.yaml alone refuses", len(report.Comparison.Suffer), 1)
	return nil
}

// replay replays the log as weir replay -c strict.yaml --against weir.yaml does.
func (s *stage) replay(ctx context.Context) (*replay.Report, error) {
	logs, err := accesslog.OpenAll([]string{s.log.Name()}, accesslog.OpenOptions{Format: "auto", Context: ctx})
	if err != nil {
		return nil, err
	}
	defer accesslog.CloseAll(logs)
	tried, err := ofFile(s.path("strict.yaml"))
	if err != nil {
		return nil, err
	}
	against, err := ofFile(s.weir.file)
	if err != nil {
		return nil, err
	}
	r := replay.New(replay.Options{Policy: tried, Against: &against, Has: accesslog.Common(logs)})
	defer r.Close()
	if err := r.Read(ctx, logs...); err != nil {
		return nil, fmt.Errorf("%s: %w", s.log.Name(), err)
	}
	return r.Report(false), nil
}

// ofFile compiles a configuration for a replay.
func ofFile(path string) (replay.Policy, error) {
	l := app.Load(app.Options{Config: path})
	return replay.Policy{Name: l.Name, Policy: l.Policy, MaxKeys: l.Config.Store.Memory.MaxKeys}, l.Err()
}
