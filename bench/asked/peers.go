package asked

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// The services of others. Each is a module of its own below peers/, at a version that is named there.
const (
	ratelimitName  = "envoyproxy/ratelimit"
	cachedName     = "envoyproxy/ratelimit, local cache"
	gubernatorName = "gubernator"
)

// peerBuild is how long building one of them may take, with its modules fetched.
const peerBuild = 4 * time.Minute

// buildPeers builds the services of others. It returns what is to be said of them.
func (h *house) buildPeers() string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*peerBuild)
	defer cancel()
	h.ratelimit, h.gubernator = filepath.Join(h.dir, "ratelimit"), filepath.Join(h.dir, "gubernator")
	said := " envoyproxy/ratelimit reads the same descriptors and counts in the same Redis. gubernator is one node in memory, " +
		"asked by its own API with the same limits. limitador was not to be had."
	if process.Build(ctx, "peers/ratelimit", h.ratelimit, "github.com/envoyproxy/ratelimit/src/service_cmd") != nil {
		h.ratelimit, said = "", said+" envoyproxy/ratelimit could not be built."
	}
	if process.Build(ctx, "peers/gubernator", h.gubernator, "github.com/gubernator-io/gubernator/v2/cmd/gubernator") != nil {
		h.gubernator, said = "", said+" gubernator could not be built."
	}
	return said
}

// runPeers starts those that could be built. redis may be nil. peers returns them as contenders for a number of callers.
func (h *house) runPeers(redis *process.Process) (peers func(callers int) []contender, err error) {
	var limits, cached, gubernator *process.Process
	if h.ratelimit != "" && redis != nil {
		if limits, err = h.runRatelimit(ratelimitName, redis); err != nil {
			return nil, err
		}
		if cached, err = h.runRatelimit(cachedName, redis, "LOCAL_CACHE_SIZE_IN_BYTES=10000000"); err != nil {
			return nil, err
		}
	}
	if h.gubernator != "" {
		if gubernator, err = h.runGubernator(); err != nil {
			return nil, err
		}
	}
	return func(callers int) (all []contender) {
		for _, p := range []*process.Process{limits, cached, gubernator} {
			if p == nil {
				continue
			}
			all = append(all, contender{name: p.Name, process: p, ask: h.callers(p, "client", callers)},
				contender{name: p.Name + overSuffix, process: p, refuses: true, ask: h.callers(p, "hot", callers)})
		}
		return all
	}, nil
}

// runRatelimit starts envoyproxy/ratelimit at the descriptors that Weir reads, with further settings.
func (h *house) runRatelimit(name string, redis *process.Process, settings ...string) (*process.Process, error) {
	return h.run(name, func(at string) ([]string, error) {
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			return nil, err
		}
		_, http, debug, err := freePorts()
		args := append([]string{
			"env", "GRPC_HOST=" + host, "GRPC_PORT=" + port, "HOST=" + host, "PORT=" + http, "DEBUG_HOST=" + host, "DEBUG_PORT=" + debug,
			"USE_STATSD=false", "LOG_LEVEL=error", "RUNTIME_ROOT=" + h.dir, "RUNTIME_SUBDIRECTORY=.", "RUNTIME_APPDIRECTORY=descriptors",
			"RUNTIME_WATCH_ROOT=false", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Address,
		}, settings...)
		return append(args, h.ratelimit), err
	})
}

// runGubernator starts one node, and waits until it knows itself: before that it counts nothing.
func (h *house) runGubernator() (*process.Process, error) {
	p, err := h.run(gubernatorName, func(at string) ([]string, error) {
		host, http, gossip, err := freePorts()
		gossip = net.JoinHostPort(host, gossip)
		return []string{
			"env", "GUBER_GRPC_ADDRESS=" + at, "GUBER_ADVERTISE_ADDRESS=" + at, "GUBER_HTTP_ADDRESS=" + net.JoinHostPort(host, http), "GUBER_LOG_LEVEL=error",
			"GUBER_PEER_DISCOVERY_TYPE=member-list", "GUBER_MEMBERLIST_ADDRESS=" + gossip, "GUBER_MEMBERLIST_ADVERTISE_ADDRESS=" + gossip,
			"GUBER_MEMBERLIST_BIND_ADDRESS=" + gossip, "GUBER_MEMBERLIST_KNOWN_NODES=" + gossip, "GUBER_CACHE_SIZE=200000", h.gubernator,
		}, err
	})
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if _, err = h.callers(p, "ready", 1)(10 * time.Millisecond); err == nil {
			return p, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
}

// freePorts returns two ports of the loopback at which nobody listens.
func freePorts() (host, a, b string, err error) {
	first, err := process.Free()
	if err != nil {
		return "", "", "", err
	}
	second, err := process.Free()
	if err != nil {
		return "", "", "", err
	}
	host, a, err = net.SplitHostPort(first)
	if err != nil {
		return "", "", "", err
	}
	_, b, err = net.SplitHostPort(second)
	return host, a, b, err
}

// beside is what a call costs the services of others beside Weir. costs are of one number of callers.
func beside(callers int, costs []cost) (peers []report.Peer) {
	for _, c := range costs {
		weir, ok := like(c, costs)
		if name, isOver := strings.CutSuffix(c.name, overSuffix); ok && !strings.HasPrefix(name, weirPrefix) {
			what := fmt.Sprintf("processor time, %d at once", callers)
			if isOver {
				what += overSuffix
			}
			peers = append(peers, report.Peer{Name: name, What: what, Cost: rounds.Ratio(c.us, weir.us)})
		}
	}
	return peers
}

// toWeir is what a call costs a service in Weir's, or nothing where there is no like.
func toWeir(c cost, costs []cost) string {
	weir, ok := like(c, costs)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.2f", rounds.Ratio(c.us, weir.us))
}

// like finds what Weir takes for the same, with the count in the same place.
func like(c cost, costs []cost) (weir cost, ok bool) {
	name := memoryName
	if strings.HasPrefix(c.name, ratelimitName) || strings.HasPrefix(c.name, redisName) {
		name = redisName
	}
	if strings.HasSuffix(c.name, overSuffix) {
		name += overSuffix
	}
	for _, w := range costs {
		if w.name == name && c.name != nullName {
			return w, true
		}
	}
	return cost{}, false
}
