package redis

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A Finding is what an operator should change about a server, or about how it is named.
type Finding uint8

const (
	// Evicts: a server that is full drops counters, and whoever is dropped starts anew.
	Evicts Finding = iota
	// ReadOnly: the server is a replica and takes no writes.
	ReadOnly
	// OneNode: one node of a Cluster was named, without which at the start none is found.
	OneNode
	// NoCluster: several servers were named as a Cluster's, and one is not in a Cluster.
	NoCluster
	// IsSentinel: the server is a Sentinel, and no master was named.
	IsSentinel
	// OtherPolicy: a replica that has another policy counts under the same prefix.
	OtherPolicy
)

var findingNames = [...]string{"evicts", "read_only", "one_node", "no_cluster", "is_sentinel", "other_policy"}

func (f Finding) String() string { return findingNames[f] }

// Findings are all of them.
func Findings() []Finding {
	return []Finding{Evicts, ReadOnly, OneNode, NoCluster, IsSentinel, OtherPolicy}
}

// advice says what is found and what to do, for the log.
var advice = [...]string{
	Evicts:      "redis: a full server drops counters by its maxmemory-policy, and whoever is dropped starts anew: set noeviction",
	ReadOnly:    "redis: the server is a read-only replica, which counts nothing: name its master",
	OneNode:     "redis: the url names one node of a Cluster, without which none is found at the start: name several",
	NoCluster:   "redis: several urls name the nodes of a Cluster, and the server is not in one: name one, or give sentinel_master",
	IsSentinel:  "redis: the server is a Sentinel: give sentinel_master",
	OtherPolicy: "redis: another policy counts under the same prefix: after a roll-out give each policy its own store.redis.prefix",
}

// findings are a set of Finding.
type findings uint8

func (f Finding) bit() findings { return 1 << f }

// aboutNames are those that are about how servers are named, and naming is whose they are.
const (
	aboutNames findings = 1<<OneNode | 1<<NoCluster | 1<<IsSentinel
	naming              = ""
)

const (
	// rounds is how often servers are looked at, besides after a connection was made.
	rounds = 30 * time.Second
	// pause is the least between two looks, and lookPatience the most that one takes.
	pause        = 250 * time.Millisecond
	lookPatience = 2 * time.Second
)

// Found reports whether the last look at the servers had that finding. Without Options.Logger nobody looks.
func (s *Store) Found(f Finding) bool { return findings(s.found.Load())&f.bit() != 0 }

// lookAround looks at the servers now, after connections were made, and from time to time, until Close.
// No request waits for it.
func (s *Store) lookAround() {
	tick := time.NewTicker(rounds)
	defer tick.Stop()
	known := map[string]findings{}
	for {
		known = s.survey(known)
		select {
		case <-s.base.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-s.base.Done():
			return
		case <-tick.C:
		case <-s.target.met:
		}
	}
}

// survey returns what is found at each server, and logs what was not known yet. Of a server that does not
// answer, or lets nobody know, what was known stays.
func (s *Store) survey(known map[string]findings) map[string]findings {
	ctx, cancel := context.WithTimeout(s.base, lookPatience)
	defer cancel()
	now, all := map[string]findings{}, findings(0)
	servers := s.servers(ctx)
	if len(servers) == 0 {
		return known // of a Cluster, nobody tells the nodes
	}
	for who, info := range servers {
		if info == "" {
			now[who], now[naming] = known[who], now[naming]|known[naming]
			continue
		}
		found := s.target.judge(info)
		now[who], now[naming] = found&^aboutNames, now[naming]|found&aboutNames
	}
	for who, found := range now {
		s.tell(who, found&^known[who])
		all |= found
	}
	if s.comparePolicy(ctx) {
		all |= OtherPolicy.bit()
	}
	s.found.Store(uint32(all))
	return now
}

// tell logs what is new.
func (s *Store) tell(who string, news findings) {
	for _, f := range Findings() {
		if news&f.bit() != 0 {
			s.log.Warn(advice[f], "server", cmp.Or(who, strings.Join(s.target.addrs, ",")), "finding", f.String())
		}
	}
}

// servers returns what each server tells of itself, or nothing where it tells nothing.
func (s *Store) servers(ctx context.Context) map[string]string {
	k, all := s.link.Load(), map[string]string{}
	if k.single != nil {
		all[s.target.name()] = infoOf(ctx, k.single.client)
		return all
	}
	var mu sync.Mutex
	_ = k.cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { // it is looked at again
		info := infoOf(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		all[c.Options().Addr] = info
		return nil
	})
	return all
}

// infoOf is all that INFO tells without being asked for more. A user may not be allowed to ask.
func infoOf(ctx context.Context, c *goredis.Client) string {
	info, err := c.Info(ctx).Result()
	if err != nil {
		return ""
	}
	return info
}

// name is what a server is called that is alone, or the one that Sentinels name.
func (t *target) name() string {
	if t.master != "" {
		return "master " + t.master
	}
	return t.addrs[0]
}

// judge says what is to be changed about a server that tells info of itself, or about its name.
func (t *target) judge(info string) (found findings) {
	mode, policy := infoField(info, "redis_mode"), infoField(info, "maxmemory_policy")
	if policy != "" && policy != "noeviction" {
		found |= Evicts.bit()
	}
	switch {
	case mode == "sentinel":
		return IsSentinel.bit()
	case mode == "cluster" && len(t.addrs) == 1:
		found |= OneNode.bit()
	case mode == "standalone" && len(t.addrs) > 1 && t.master == "":
		found |= NoCluster.bit()
	case mode == "standalone" && t.master == "" && infoField(info, "role") == "slave" && infoField(info, "slave_read_only") != "0":
		found |= ReadOnly.bit()
	}
	return found
}

// infoField returns a field of INFO's answer, or nothing.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
