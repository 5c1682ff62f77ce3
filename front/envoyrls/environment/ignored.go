package environment

import (
	"slices"
	"strings"
)

// hasNoEffect reports whether a variable is known to envoyproxy/ratelimit, and not heeded here:
//
//   - connections, pipelines, timeouts and pools are Weir's own to see to (also where that program
//     would not start, as with REDIS_POOL_ON_EMPTY_BEHAVIOR=CREATE);
//   - there is no statsd, Memcached or trace exporter of that program's kind.
func hasNoEffect(name string) bool {
	short := name
	if rest, ok := strings.CutPrefix(name, "REDIS_PERSECOND_"); ok {
		short = "REDIS_" + rest
	}
	switch short {
	case "REDIS_POOL_SIZE", "REDIS_POOL_ON_EMPTY_BEHAVIOR", "REDIS_POOL_ON_EMPTY_WAIT_DURATION", "REDIS_TIMEOUT",
		"REDIS_PIPELINE_WINDOW", "REDIS_PIPELINE_LIMIT", "REDIS_USE_EXPLICIT_PIPELINE",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
		"USE_STATSD", "STATSD_HOST", "STATSD_PORT", "USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS", "EXTRA_TAGS",
		"STATS_FLUSH_INTERVAL", "DISABLE_STATS", "PROMETHEUS_MAPPER_YAML":
		return true
	}
	return strings.HasPrefix(name, "MEMCACHE_") || strings.HasPrefix(name, "TRACING_")
}

// looksForeign reports whether a variable that is not known begins as those of envoyproxy/ratelimit do, and
// so may be one of a newer version: with RUNTIME_, GRPC_SERVER_, GRPC_CLIENT_, GRPC_MAX_, CONFIG_GRPC_XDS_,
// XDS_CLIENT_, LIMIT_, REDIS_, PROMETHEUS_ or STATSD_.
//
// What Kubernetes sets for a service called redis is none: REDIS_SERVICE_HOST, REDIS_PORT, REDIS_PORT_6379_TCP.
func looksForeign(name string) bool {
	for _, kubernetes := range []string{"_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"} {
		if strings.Contains(name, kubernetes) {
			return false
		}
	}
	if strings.HasSuffix(name, "_PORT") {
		return false
	}
	for _, prefix := range []string{
		"RUNTIME_", "GRPC_SERVER_", "GRPC_CLIENT_", "GRPC_MAX_", "CONFIG_GRPC_XDS_", "XDS_CLIENT_", "LIMIT_",
		"REDIS_", "PROMETHEUS_", "STATSD_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// ignored returns the variables that are set and have no effect here, by name.
func (r *reader) ignored() (names []string) {
	for name := range r.values {
		if !r.known[name] && (hasNoEffect(name) || looksForeign(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
