package app

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/embedded/shared"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/localdb"
	"github.com/weirgate/weir/store/memory"
)

// A store is where this process counts, and all that stands behind it.
//
//	with Redis:     failover ─▶ redis, or for a while this replica's share in memory
//	without:        localdb (quotas, once there are any) ─▶ memory
type store struct {
	engine.Store // what the engine asks
	memory       *memory.Store
	shared       *shared.Store // in Redis; nil: none
	compat       compat
	more         []*store       // opened beside this one, and closed with it
	quotas       *localdb.Store // nil until a quota is configured, and with shared
	opening      sync.Mutex
	db           *localdb.DB // nil until something is kept
}

// openStore opens what c names. A server that cannot be reached is no error: it may come later. b has
// what it is told; what counts in its place is opened here.
func openStore(c *config.Config, b embedded.Beside) (*store, error) {
	s := &store{memory: memory.New(memory.Options{MaxKeys: c.Store.Memory.MaxKeys})}
	s.Store = s.memory
	if c.Store.Redis.URL == "" {
		if err := s.needDatabase(c); err != nil {
			return nil, err
		}
		s.keepQuotas(c, b.Log)
		return s, nil
	}
	var err error
	b.Local = s.memory
	if s.shared, err = shared.Open(c, b); err != nil {
		s.close(b.Log)
		return nil, err
	}
	s.Store = s.shared
	return s, s.shared.Announce(c)
}

// follow does for c, which is put in force at this moment, what a store that is open can do: from then on
// what it has to remember is remembered, and the other replicas know what is counted by. It does not fail.
func (s *store) follow(c *config.Config, log *slog.Logger) {
	s.keepQuotas(c, log)
	if s.shared == nil {
		return
	}
	if err := s.shared.Announce(c); err != nil {
		log.Warn("other replicas do not learn of the policy", "err", err)
	}
}

// backend names what this process counts in.
func (s *store) backend() string {
	if s.shared != nil {
		return "redis"
	}
	return "memory"
}

// keepQuotas puts the embedded database before the memory, if c has a quota and it is not there yet.
// Where it cannot be opened, quotas are counted in memory, and the log says why.
func (s *store) keepQuotas(c *config.Config, log *slog.Logger) {
	if s.shared != nil || s.quotas != nil || !c.HasQuota() {
		return
	}
	db, err := s.database(c.DataDir)
	if err == nil {
		s.quotas, err = localdb.NewStore(db, s.memory, time.Now(), localdb.Options{Logger: log})
	}
	if err != nil {
		log.Warn("quota counts are kept in memory only, and a restart forgets them", "err", err)
		return
	}
	s.Store = s.quotas
}

// needDatabase fails where c keeps API keys in the embedded database and it cannot be opened: before what can do
// without it complains.
func (s *store) needDatabase(c *config.Config) error {
	if !c.ReadsKeys() || c.Keys.PostgresURL != "" {
		return nil
	}
	if _, err := s.database(c.DataDir); err != nil {
		s.memory.Close()
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// database returns the embedded database, and opens it with the first need.
func (s *store) database(dir string) (*localdb.DB, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	var err error
	s.db, err = localdb.Open(dir)
	return s.db, err
}

// close closes what is open, from the outside in.
func (s *store) close(log *slog.Logger) {
	for _, other := range s.more {
		other.close(log)
	}
	var errs []error
	if s.compat.failover != nil {
		s.compat.failover.Close()
	}
	if s.shared != nil {
		errs = append(errs, s.shared.Close())
	}
	if s.quotas != nil {
		errs = append(errs, s.quotas.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	s.memory.Close()
	if err := errors.Join(errs...); err != nil {
		log.Warn("closing the store", "err", err)
	}
}
