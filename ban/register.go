package ban

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirgate/weir"
)

// A Register keeps texts under names where they outlive the process. It is safe for concurrent use.
type Register interface {
	// Since returns what was put after a version, an empty text standing for what was removed, and the
	// present version. If whole is set these are all there are: so it is for version 0, and for one that it
	// does not know any longer.
	Since(ctx context.Context, version int64) (texts map[string]string, present int64, whole bool, err error)
	// Put puts a text under a name. After an error it may be there or not.
	Put(ctx context.Context, name, text string) error
	// Remove removes what is under a name. After an error it may be there or not.
	Remove(ctx context.Context, name string) error
	// Forget removes what is under names, and is no news, unless anything was put after version.
	Forget(ctx context.Context, version int64, names []string) error
}

// A record is a ban as it is kept, under its subject. Times are Unix milliseconds.
type record struct {
	Until  int64  `json:"until,omitempty"` // 0: when it is lifted
	Since  int64  `json:"since"`
	Reason string `json:"reason,omitempty"`
	Author string `json:"author,omitempty"`
}

func write(b *weir.Ban) (string, error) {
	r := record{Since: b.Since.UnixMilli(), Reason: b.Reason, Author: b.Author}
	if !b.Until.IsZero() {
		r.Until = b.Until.UnixMilli()
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// read returns the change that a kept text says; the empty text, that there is no ban.
func read(name, text string) (change, error) {
	s, err := ParseSubject(name)
	if err != nil || text == "" {
		return change{subject: s}, err
	}
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return change{}, fmt.Errorf("ban of %s: %w", name, err)
	}
	b := &weir.Ban{Subject: s.String(), Since: time.UnixMilli(r.Since), Reason: r.Reason, Author: r.Author}
	if r.Until != 0 {
		b.Until = time.UnixMilli(r.Until)
	}
	return change{s, b}, nil
}

// nowhere is a register that keeps nothing: bans end with the process.
type nowhere struct{}

func (nowhere) Since(context.Context, int64) (map[string]string, int64, bool, error) {
	return nil, 1, false, nil
}
func (nowhere) Put(context.Context, string, string) error     { return nil }
func (nowhere) Remove(context.Context, string) error          { return nil }
func (nowhere) Forget(context.Context, int64, []string) error { return nil }
