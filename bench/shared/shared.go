// Package shared measures decisions whose count lies in Redis, beside the plainest way to do it and a
// common library.
package shared

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

// Options say how long to measure.
type Options struct {
	Rounds int
	Slot   time.Duration // of one contender in one round
}

const note = "One redis-server on the loopback, which shares the processors with the callers; 50,000 clients in turn. Plain " +
	"EVALSHA is go-redis with a script of five lines that counts a fixed window; redis_rate is go-redis/redis_rate; all peers share one go-redis " +
	"client of 64 connections. go-chi/httprate-redis is not to be had from the module proxy. Cluster: " +
	"three nodes on the same processors. Redis CPU by INFO, of all nodes. Figures are of the quiet quarter of the rounds."

const (
	clients   = 50_000
	patience  = time.Second // for an answer: nobody is to give up here
	unlimited = 1 << 30
)

// Redis measures the store in Redis. Where redis-server is not installed the section says so.
func Redis(o Options) (report.Section, error) {
	section := report.Section{Title: "Decisions through one Redis", Note: note}
	s, err := start()
	if errors.Is(err, exec.ErrNotFound) {
		section.Note = "Not measured: redis-server is not installed."
		return section, nil
	}
	if err != nil {
		return section, err
	}
	defer s.close()
	store, err := redis.New(redis.Options{URL: "redis://" + s.addr, Timeout: patience})
	if err != nil {
		return section, err
	}
	defer store.Close()
	client := goredis.NewClient(&goredis.Options{Addr: s.addr, Protocol: 2, PoolSize: 64})
	defer client.Close()
	peers, err := contenders(store, client)
	if err != nil {
		return section, err
	}
	single, err := o.single(s, peers, &section)
	if err != nil {
		return section, err
	}
	clustered, err := o.cluster()
	if err != nil {
		return section, err
	}
	section.Tables = []report.Table{{
		Title: "Decisions with one limit",
		Head:  []string{"", "callers", "decisions/s", "p50, µs", "p99, µs", "Redis CPU, µs each"},
		Rows:  append(single, clustered...),
	}}
	hot, err := o.refused(store)
	section.Checks = append(section.Checks, hot)
	return section, err
}

// single measures the contenders on one server, and adds what is to be kept.
func (o Options) single(s *server, peers []contender, section *report.Section) (rows [][]string, err error) {
	for _, callers := range []int{1, 64} {
		figures, err := o.take(s.cpu, callers, peers)
		if err != nil {
			return nil, err
		}
		for i, f := range figures {
			rows = append(rows, row(peers[i].name, callers, f))
		}
		section.Checks = append(section.Checks, checks(callers, figures)...)
		section.Peers = append(section.Peers, beside(callers, peers, figures)...)
	}
	return rows, nil
}

// cluster measures the store in a Cluster on the same processors.
func (o Options) cluster() (rows [][]string, err error) {
	c, err := startCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	store, err := redis.New(redis.Options{URL: c.url(), Timeout: patience})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	peers := []contender{
		{"store/redis, Cluster", takes(store, clientNames(), 1)},
		{"store/redis, Cluster, three limits", takes(store, clientNames(), 3)},
	}
	for _, callers := range []int{1, 64} {
		figures, err := o.take(c.cpu, callers, peers)
		if err != nil {
			return nil, err
		}
		for i, f := range figures {
			rows = append(rows, row(peers[i].name, callers, f))
		}
	}
	return rows, nil
}

// clientNames are the addresses of the clients.
func clientNames() []string {
	names := make([]string, clients)
	for i := range names {
		names[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	return names
}

func row(name string, callers int, f figure) []string {
	return []string{
		name, strconv.Itoa(callers), report.Figure(f.perSecond()),
		report.Figure(f.p50), report.Figure(f.p99), report.Figure(f.cpu),
	}
}

// checks are what is to be kept: figures are of one limit, three limits, plain EVALSHA and redis_rate.
func checks(callers int, f []figure) []report.Check {
	three := report.Check{
		What: fmt.Sprintf("three limits, %d at once", callers), Measured: f[1].wall, Unit: "µs",
		Beside: fmt.Sprintf("one limit %s µs", report.Figure(f[0].wall)), Ratio: rounds.Ratio(f[1].walls, f[0].walls), Bar: "<= 1.3 x",
	}
	three.Met = three.Ratio <= 1.3
	if callers == 1 {
		alone := report.Check{
			What: "a lone caller's decision", Measured: f[0].wall, Unit: "µs",
			Beside: fmt.Sprintf("plain EVALSHA %s µs", report.Figure(f[2].wall)), Ratio: rounds.Ratio(f[0].walls, f[2].walls), Bar: "<= 1.1 x",
		}
		alone.Met = alone.Ratio <= 1.1
		return []report.Check{alone, three}
	}
	return []report.Check{
		{
			What: "decisions of 64 callers", Measured: f[0].perSecond(), Unit: "/s", Beside: fmt.Sprintf("plain EVALSHA %s/s", report.Figure(f[2].perSecond())),
			Ratio: rounds.Ratio(f[2].walls, f[0].walls), Bar: ">= 100000/s", Met: f[0].perSecond() >= 100_000,
		},
		{What: "p99 of 64 callers", Measured: f[0].p99, Unit: "µs", Bar: "<= 3000 µs", Met: f[0].p99 <= 3000},
		{What: "Redis CPU of one decision of 64 callers", Measured: f[0].cpu, Unit: "µs", Bar: "<= 7 µs", Met: f[0].cpu <= 7},
		three,
	}
}

// takes returns a decision with n limits, as a rule of the policy would ask it.
func takes(store weir.Store, names []string, n int) func(int) error {
	limits, keys := make([]*weir.Limit, n), make([][]string, n)
	for k := range limits {
		limits[k] = &weir.Limit{Max: unlimited, Window: time.Duration(k+1) * time.Minute}
		for _, name := range names {
			keys[k] = append(keys[k], fmt.Sprintf("{%s/32}:search:sliding_window:%v:@%s/32", name, limits[k].Window, name))
		}
	}
	return func(i int) error {
		hits, out := make([]weir.Hit, n), make([]weir.Status, n)
		for k := range hits {
			key := keys[k][i%clients]
			hits[k] = weir.Hit{Limit: limits[k], Key: []byte(key), TagLen: len("{/32}") + len(names[i%clients]), N: 1}
		}
		return store.Take(context.Background(), time.Time{}, hits, out)
	}
}

// refused compares an attacker's hot key with what the store in memory makes of it.
func (o Options) refused(store *redis.Store) (report.Check, error) {
	local := memory.New(memory.Options{})
	defer local.Close()
	var failed error
	hot := func(s weir.Store) func(int) {
		l := &weir.Limit{Max: 10, Window: time.Hour}
		hits := []weir.Hit{{Limit: l, Key: []byte("{203.0.113.7/32}:hot"), TagLen: len("{203.0.113.7/32}"), N: 1}}
		out := make([]weir.Status, 1)
		return func(n int) {
			for range n {
				if err := s.Take(context.Background(), time.Now(), hits, out); err != nil {
					failed = err
				}
			}
		}
	}
	t := rounds.Run(o.Rounds, o.Slot/4, []rounds.Contender{{Name: "store/redis", Do: hot(store)}, {Name: "store/memory", Do: hot(local)}})
	c := report.Check{
		What: "a refused hot key", Measured: t[0].NS, Unit: "ns", Beside: fmt.Sprintf("store/memory %s ns", report.Figure(t[1].NS)),
		Ratio: rounds.Ratio(t[0].Rounds, t[1].Rounds), Bar: "<= 1.5 x",
	}
	c.Met = c.Ratio <= 1.5
	return c, failed
}
