package asked

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/process"
)

// A house is the programs, and the processes that run.
type house struct {
	dir                   string
	weir, plain, rls      string
	ratelimit, gubernator string // empty: could not be built
	running               []*process.Process
}

func (h *house) build() error {
	return errors.Join(
		process.BuildWeir(h.weir),
		process.Build(context.Background(), ".", h.plain, "./plain"),
		process.Build(context.Background(), ".", h.rls, "./rls"),
	)
}

// anywhere is where all processes run.
var anywhere = process.Place{}

// run starts a process that listens on a free address. command returns how, given that address.
func (h *house) run(name string, command func(at string) ([]string, error)) (*process.Process, error) {
	at, err := process.Free()
	if err != nil {
		return nil, err
	}
	args, err := command(at)
	if err != nil {
		return nil, err
	}
	p, err := process.Launch(anywhere, name, at, args...)
	if err == nil {
		h.running = append(h.running, p)
	}
	return p, err
}

// stop ends what was started last first.
func (h *house) stop() {
	for i := len(h.running) - 1; i >= 0; i-- {
		h.running[i].Stop()
	}
	h.running = nil
}

// runWeir starts Weir with that configuration, in which %s stands for where it listens.
func (h *house) runWeir(name, yaml string) (*process.Process, error) {
	return h.run(name, func(at string) ([]string, error) {
		admin, err := process.Free()
		if err != nil {
			return nil, err
		}
		file, err := h.write(strings.ReplaceAll(name, " ", "-")+".yaml", fmt.Sprintf("admin: %q\n", admin)+fmt.Sprintf(yaml, at))
		return []string{h.weir, "run", "-c", file}, err
	})
}

func (h *house) write(name, text string) (string, error) {
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// shipped returns a file of deploy/ with changes, each of which is of something that stands in it.
func shipped(name string, changes ...string) (string, error) {
	root, err := process.Root()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", name))
	if err != nil {
		return "", err
	}
	config := string(text)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(config, changes[i]) {
			return "", fmt.Errorf("deploy/%s has no %q", name, changes[i])
		}
		config = strings.ReplaceAll(config, changes[i], changes[i+1])
	}
	return config, nil
}

// missing returns the first of the programs that is not installed, or nothing.
func missing(programs ...string) string {
	for _, p := range programs {
		if !process.Installed(p) {
			return p
		}
	}
	return ""
}

// wrk asks whoever listens at address for everything that p is asked about.
func wrk(address string) func(time.Duration) (load, error) {
	return func(slot time.Duration) (load, error) {
		began := time.Now()
		l, err := process.Wrk(anywhere, address, slot)
		return load{questions: l.Requests, refused: l.Refused, took: time.Since(began)}, err
	}
}
