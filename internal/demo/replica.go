package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/app"
)

// A replica is a whole Weir in this process, as weir run starts one: with a configuration file, listeners, a
// store and a log of its own. It shares nothing with others but what its file names.
type replica struct {
	name         string
	front, admin string // host:port
	file         string // its configuration
	stop         context.CancelFunc
	done         chan error
}

// errEnded is a Weir that ended before it served.
var errEnded = errors.New("ended at once")

// startReplica writes a configuration to dir and starts a Weir with it. It goes on until it is closed,
// whatever becomes of ctx, so that what the tour asks last is answered.
func startReplica(ctx context.Context, dir, name, yaml string) (*replica, error) {
	r := &replica{name: name, file: filepath.Join(dir, name+".yaml"), done: make(chan error, 1)}
	if err := os.WriteFile(r.file, []byte(yaml), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	first := &herald{out: log, served: make(chan places, 1)}
	a, err := app.Start(app.Options{Config: r.file, Log: first})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { r.done <- errors.Join(a.Run(ctx), log.Close()) }()
	select {
	case at := <-first.served:
		r.front, r.admin = at.Listen, at.Admin
		return r, nil
	case err := <-r.done:
		return nil, errors.Join(fmt.Errorf("%s: %w", name, errEnded), err)
	}
}

// close ends the Weir.
func (r *replica) close() error {
	r.stop()
	return <-r.done
}

// places are where a Weir serves.
type places struct{ Listen, Admin string }

// A herald passes a log on, and tells of the first line that says where Weir serves. A line is one Write.
type herald struct {
	out    io.Writer
	served chan places
	once   sync.Once
}

func (h *herald) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"weir is running"`)) {
		var at places
		if json.Unmarshal(line, &at) == nil {
			h.once.Do(func() { h.served <- at })
		}
	}
	return h.out.Write(line)
}

// question asks the admin API, and decodes the answer into out.
func (r *replica) question(ctx context.Context, method, path string, out any) error {
	body := io.Reader(http.NoBody)
	if method == http.MethodPost {
		body = bytes.NewReader([]byte("{}"))
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+r.admin+path, body)
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		var p admin.Problem
		return errors.Join(fmt.Errorf("%s: %s %s: %s", r.name, method, path, res.Status), json.NewDecoder(res.Body).Decode(&p), errors.New(p.Detail))
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// reload puts another configuration in force while the Weir serves.
func (r *replica) reload(ctx context.Context, yaml string) error {
	if err := os.WriteFile(r.file, []byte(yaml), 0o600); err != nil {
		return err
	}
	var done admin.Reload
	return r.question(ctx, http.MethodPost, "/api/v1/reload", &done)
}
