package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A Register is texts under names that all replicas share: a hash, the version that each change raises, and
// the names that changed last. Its three keys share a slot. It waits longer than the store, for no request waits
// for it, and is safe for concurrent use.
type Register struct {
	store                   *Store
	texts, version, changes string // keys
}

const (
	mostChanges = 1024 // names that are kept of those that changed last
	scanStep    = 1000 // fields of the hash in one answer
	unhurried   = time.Second

	unwritten = 1 // the version of a register that nothing was put into; 0 is who knows nothing
)

// Register returns the register of a name that has no braces. It is there while the store is open.
func (s *Store) Register(name string) *Register {
	key := s.prefix + ":{" + name + "}:"
	return &Register{s, key + "texts", key + "version", key + "changes"}
}

// do executes f, and once more where a Cluster says that another server has the register, which has executed
// nothing.
func (r *Register) do(ctx context.Context, what string, f func(*goredis.Client) error) error {
	var to *line
	var err error
	for range mostRedirects {
		if to == nil {
			to, err = r.store.link.Load().line(ctx, r.version)
		}
		if to != nil {
			err = f(to.client.WithTimeout(unhurried))
		}
		if addr, moved := goredis.IsMovedError(err); moved {
			to = r.moved(addr)
			continue
		}
		break
	}
	if err == nil {
		return nil
	}
	if k := r.store.link.Load(); k.cluster != nil {
		k.cluster.ReloadState(context.Background()) // another node may have taken over
	}
	if dial := r.store.target.dialer.failed.Load(); dial != nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w; the last connection failed: %w", err, *dial)
	}
	return fmt.Errorf("redis %s: %s: %w", strings.Join(r.store.target.addrs, ","), what, err)
}

// moved returns the way to the server that has the register now, or nil if it has to be looked for.
func (r *Register) moved(addr string) *line {
	k := r.store.link.Load()
	if k.cluster == nil {
		r.store.becomeCluster(k)
		return nil
	}
	k.cluster.ReloadState(context.Background()) // in the background
	return k.lineTo(addr)
}

// Since returns the texts of the names that changed after a version, an empty one standing for one that was
// removed, and the present version. If whole is set these are all there are: for version 0, and for one that
// is not among the last 1024 changes, or of a server that has lost its data.
func (r *Register) Since(ctx context.Context, version int64) (texts map[string]string, present int64, whole bool, err error) {
	err = r.do(ctx, "read "+r.texts, func(c *goredis.Client) error {
		texts, whole = nil, false
		var err error
		present, err = number(c.Get(ctx, r.version))
		if present = max(present, unwritten); err != nil || present == version {
			return err
		}
		if since := present - version; version != 0 && 0 < since && since <= mostChanges {
			texts, present, err = r.news(ctx, c, version)
			if err != nil || texts != nil {
				return err
			}
		}
		whole = true
		texts, err = r.scan(ctx, c)
		return err
	})
	return texts, present, whole, err
}

// number reads a counter, which is 0 where there is none.
func number(c *goredis.StringCmd) (int64, error) {
	n, err := c.Int64()
	if errors.Is(err, goredis.Nil) {
		return 0, nil
	}
	return n, err
}

// news returns what changed after version, or nil if more changed than is kept.
func (r *Register) news(ctx context.Context, c *goredis.Client, version int64) (map[string]string, int64, error) {
	tx := c.TxPipeline()
	at := tx.Get(ctx, r.version)
	last := tx.LRange(ctx, r.changes, 0, mostChanges-1)
	if _, err := tx.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) {
		return nil, 0, err
	}
	present, err := number(at)
	names := last.Val()
	if n := present - version; err != nil || n <= 0 || n > int64(len(names)) {
		return nil, present, err
	}
	names = names[:present-version]
	slices.Sort(names)
	names = slices.Compact(names)
	values, err := c.HMGet(ctx, r.texts, names...).Result()
	if err != nil {
		return nil, 0, err
	}
	texts := make(map[string]string, len(names))
	for i, name := range names {
		texts[name], _ = values[i].(string) // nil: removed
	}
	return texts, present, nil
}

// scan returns all texts, a thousand at a time.
func (r *Register) scan(ctx context.Context, c *goredis.Client) (map[string]string, error) {
	texts := map[string]string{}
	for cursor := uint64(0); ; {
		pairs, next, err := c.HScan(ctx, r.texts, cursor, "", scanStep).Result()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			texts[pairs[i]] = pairs[i+1]
		}
		if cursor = next; cursor == 0 {
			return texts, nil
		}
	}
}

// Put puts a text under a name. After an error it may be there or not.
func (r *Register) Put(ctx context.Context, name, text string) error {
	return r.change(ctx, name, func(tx goredis.Pipeliner) { tx.HSet(ctx, r.texts, name, text) })
}

// Remove removes what is under a name. After an error it may be there or not.
func (r *Register) Remove(ctx context.Context, name string) error {
	return r.change(ctx, name, func(tx goredis.Pipeliner) { tx.HDel(ctx, r.texts, name) })
}

// change does what what does, and notes it as news, or does nothing. A server that has lost its data begins with
// a version that nobody can have seen.
func (r *Register) change(ctx context.Context, name string, what func(goredis.Pipeliner)) error {
	return r.do(ctx, "write "+r.texts, func(c *goredis.Client) error {
		if err := c.Get(ctx, r.version).Err(); err != nil && !errors.Is(err, goredis.Nil) {
			return err // a transaction would not tell where the register is
		}
		_, err := c.TxPipelined(ctx, func(tx goredis.Pipeliner) error {
			tx.SetNX(ctx, r.version, strconv.FormatInt(r.store.wall().UnixMicro(), 10), 0)
			what(tx)
			tx.LPush(ctx, r.changes, name)
			tx.LTrim(ctx, r.changes, 0, mostChanges-1)
			tx.Incr(ctx, r.version)
			return nil
		})
		return err
	})
}

// Forget removes what is under names and is no news, unless anything changed after version.
func (r *Register) Forget(ctx context.Context, version int64, names []string) error {
	return r.do(ctx, "forget "+r.texts, func(c *goredis.Client) error {
		err := c.Watch(ctx, func(tx *goredis.Tx) error {
			if present, err := number(tx.Get(ctx, r.version)); err != nil || present != version {
				return err
			}
			_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				for some := range slices.Chunk(names, scanStep) {
					p.HDel(ctx, r.texts, some...)
				}
				return nil
			})
			return err
		}, r.version)
		if errors.Is(err, goredis.TxFailedErr) {
			return nil // it is done the next time
		}
		return err
	})
}
