// Package journal remembers what was decided: metrics, a ring of recent decisions, who asks most, each
// of the last seconds, the chain diagnosis and the log of refusals, all from Record alone.
//
// It is the only package that knows Prometheus. Everything it keeps is bounded: the ring by its
// length, the series by the configured rules, who asks most by sketches, the log by a rate.
package journal

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
	"github.com/weirgate/weir/waf/mask"
)

// Options are what a journal is given. The zero Options are good: nothing is logged, and the ring
// has its default length.
type Options struct {
	Now func() time.Time // the clock; nil is time.Now
	Log *slog.Logger     // nil: nothing is logged

	Addresses         Addresses // how the log writes client addresses
	RefusalsPerSecond int       // most log lines about refusals and refused connections; 0: none

	Recent int      // how many decisions the ring keeps; 0: DefaultRecent
	Rules  []string // names of the configured rules, the only ones that become labels
	Faults []string // of connections that a front refuses, the only ones that become labels

	TopClients int // how many of the clients that ask most are metrics; 0: none

	Chain chain.Config // of the chain diagnosis

	Mask *mask.Masker // what hides secrets in paths and hosts; nil: nothing is hidden
	Keep int          // how many blocked requests are kept; 0: DefaultKeep
	Dir  string       // the data directory, in which they outlive the process; empty: they do not

	Backend string // what the store is: memory, also if empty, or redis
	Gauges  Gauges

	Version    string // of the program
	ConfigHash string // hex digest of the configuration in force; see Reloaded
}

// Gauges are numbers that others know, read at each scrape and by Run. A nil function means that there is no
// such number. Each must be safe for concurrent use and cheap.
type Gauges struct {
	Enabled          func() bool     // the configuration in force does anything
	MemoryKeys       func() int      // counters held by the store in memory
	MemoryEvictions  func() uint64   // counters forgotten for want of room, since the start
	TarpitHeld       func() int      // askers held at this moment
	UpstreamInFlight func() int      // requests at the upstream at this moment
	BreakerOpen      func() bool     // the shared store is left alone
	Recalled         func() uint64   // hits refused from memory, without asking the shared store
	APIKeys          func() *APIKeys // what is known of API keys; nil, or returning nil: none are read
	// StoreFindings are what may be wrong with the shared store, by name, each with whether it is.
	StoreFindings func() map[string]bool
	// StoreFailures are how often the shared store did not answer, by the way in which.
	StoreFailures func() map[string]uint64
	// Bans are how many are known, Penalties how many bans each penalty made, by its name, and PassedOver how
	// many offences none of them counted since too many came at once.
	Bans       func() int
	Penalties  func() map[string]uint64
	PassedOver func() uint64
}

// APIKeys are how it stands with the API keys that requests are asked for.
type APIKeys struct {
	Known  int               // keys that this process holds
	Age    time.Duration     // since what it holds was true
	Errors uint64            // questions that their database did not answer, since it was opened
	Checks map[string]uint64 // requests that bore a key, by what became of it
}

// A Journal is safe for concurrent use.
type Journal struct {
	quiet     bool // nobody reads it
	now       func() time.Time
	log       *slog.Logger
	counts    *counts
	metrics   *metrics
	pages     *pages
	ring      *ring
	talkers   *talkers
	breaker   breakerHistory
	diagnosis *diagnosis
	masker    *masker
	lines     *lineLimit

	sentences  *lineLimit // of who was banned by penalties
	faultLines *lineLimit // of the firewall's faults, however many refusals there are
	evictions  evictionAlarm
	secrets    *secrets
	blocked    *blockedRing
	file       *blockedFile // nil: there is no data directory
	insights   *blockedRing
	failing    failing
	quotas     *quotas
	plans      minutely     // keys that are refused for their plan
	top        atomic.Int64 // clients that are metrics
}

// faultsPerSecond is how many log lines are written about the firewall's faults, at most.
const faultsPerSecond = 5

// New returns a journal in which nothing stands yet, but for the requests that the data directory says were
// blocked.
func New(o Options) *Journal {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	j := &Journal{
		now:       o.Now,
		log:       o.Log,
		counts:    newCounts(o.Rules, o.Faults, o.ConfigHash),
		pages:     newPages(),
		ring:      newRing(o.Recent),
		secrets:   new(secrets),
		blocked:   newBlockedRing(o.Keep),
		file:      newBlockedFile(o.Dir),
		insights:  newBlockedRing(mostInsights),
		quotas:    newQuotas(),
		talkers:   newTalkers(),
		breaker:   breakerHistory{open: o.Gauges.BreakerOpen},
		diagnosis: newDiagnosis(o.Chain),
		masker:    newMasker(o.Addresses),
		lines:     newLineLimit(o.RefusalsPerSecond),
		sentences: newLineLimit(sentencesPerSecond),
		evictions: evictionAlarm{read: o.Gauges.MemoryEvictions},

		faultLines: newLineLimit(faultsPerSecond),
	}
	if j.file != nil {
		if err := j.file.load(j.blocked, j.now()); err != nil {
			j.log.Warn("what was blocked before this start is not known", "err", err)
		}
	}
	j.secrets.masker.Store(o.Mask)
	j.top.Store(int64(o.TopClients))
	j.metrics = newMetrics(j.counts, j.diagnosis, o)
	j.metrics.registry.MustRegister(j.topFamily(), j.quotas.family())
	return j
}

// Discard returns a journal for looks that nobody reads about later, such as explain's.
func Discard() *Journal {
	j := New(Options{Recent: 1})
	j.quiet = true
	return j
}

// Record notes a decision and what became of it. It keeps nothing of d after it returned, allocates
// nothing unless it writes a log line, and waits for nobody but for the microseconds in which somebody reads or
// adds up a page. Another ask about a request that was decided before is no other request: it stands in the ring,
// and in a count of its own.
func (j *Journal) Record(d *weir.Decision, o weir.Outcome) {
	if j.quiet {
		return
	}
	j.note(d, o)
	if d.Reason == weir.AskedBefore {
		return
	}
	j.inspected(d, o)
	j.quotaUsed(d)
	j.unknownPlan(d)
	if d.Refused() {
		j.refused(d, o)
	}
}

// StoreWaited notes how long a request waited for the shared store.
func (j *Journal) StoreWaited(d time.Duration) { j.metrics.store.Observe(d.Seconds()) }

// Recent returns the last n decisions, or as many as are kept, newest first.
func (j *Journal) Recent(n int) []Entry { return j.Select(n, func(*Entry) bool { return true }) }

// Select returns at most n of the kept decisions that are wanted, newest first. Those that wanted sees do not have
// what was asked for yet: to hide the secrets in it takes most of the time.
func (j *Journal) Select(n int, wanted func(*Entry) bool) []Entry {
	entries := []Entry{}
	if n <= 0 {
		return entries
	}
	j.settle()
	j.ring.recent(func(kept *note) (enough bool) {
		if e := kept.outcome(); wanted(&e) {
			kept.request(&e)
			entries = append(entries, e)
		}
		return len(entries) == n
	})
	for i := range entries {
		e := &entries[i]
		e.Path = j.secrets.path(e.Path, len(e.Path) > maxPath-utf8.UTFMax)
		e.Host = j.secrets.host(e.Host, len(e.Host) > maxHost-utf8.UTFMax)
	}
	return entries
}

// Outcomes returns all kept decisions without what was asked for, newest first.
func (j *Journal) Outcomes() (all []Entry) {
	j.settle()
	j.ring.recent(func(kept *note) bool {
		all = append(all, kept.outcome())
		return false
	})
	return all
}

// HidePath returns a path as it may be written down: without the secrets in it, and not longer than the ring
// has it.
func (j *Journal) HidePath(path string) string {
	short := cut(path, maxPath)
	return j.secrets.path(short, len(short) < len(path))
}

// HideHost returns a host as it may be written down.
func (j *Journal) HideHost(host string) string {
	short := cut(host, maxHost)
	return j.secrets.host(short, len(short) < len(host))
}

// Totals returns what was counted since the start.
func (j *Journal) Totals() Totals {
	j.settle()
	return j.counts.totals()
}

// Handler serves the metrics in the Prometheus text format.
func (j *Journal) Handler() http.Handler {
	read := j.metrics.handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.settle()
		read.ServeHTTP(w, r)
	})
}

// SetRules makes names the rules that are counted apart. What was counted for a rule that stays is
// kept; the series of a rule that goes vanish.
func (j *Journal) SetRules(names []string) {
	j.settle()
	j.counts.setRules(names)
}

// SetLog changes how the log writes addresses, and the most lines about refusals per second.
func (j *Journal) SetLog(a Addresses, refusalsPerSecond int) {
	j.masker.set(a)
	j.lines.perSecond.Store(int64(refusalsPerSecond))
}

// SetFirewall changes what hides secrets, and how many blocked requests are kept.
func (j *Journal) SetFirewall(m *mask.Masker, keep int) {
	j.secrets.masker.Store(m)
	j.blocked.resize(keep)
}

// SetTopClients changes how many of the clients that ask most are metrics.
func (j *Journal) SetTopClients(n int) { j.top.Store(int64(n)) }

// Reloaded notes that another configuration is in force. Its hash is a hex digest; the log and the
// metric show the first 12 digits, which a float64 holds exactly.
func (j *Journal) Reloaded(hash string) {
	j.counts.reloaded(hash)
	j.log.Info("configuration reloaded", "config_hash", short(hash))
}

// ReloadFailed notes that a new configuration was refused and the old one stays in force.
func (j *Journal) ReloadFailed(err error) {
	j.counts.reloadFailures.Add(1)
	j.log.Error("configuration not reloaded, the old one stays in force", "err", err)
}
