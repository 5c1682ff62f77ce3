package environment

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/store/redis"
)

func defaults() Settings {
	return Settings{
		Host: "0.0.0.0", Port: 8080, DebugHost: "0.0.0.0", DebugPort: 6070, GRPCHost: "0.0.0.0", GRPCPort: 8081,
		GRPCMaxConnectionAge: 24 * time.Hour, GRPCMaxConnectionAgeGrace: time.Hour,
		LogLevel: "WARN", LogFormat: "text",
		RuntimeRoot: "/srv/runtime_data/current", RuntimeAppDirectory: "config", RuntimeWatchRoot: true,
		ConfigType: "FILE",
		XDS: XDS{NodeID: "default", ServerURL: "localhost:18000", BackoffInitial: 10 * time.Second, BackoffMax: time.Minute,
			BackoffFactor: 0.5, BackoffJitter: true},
		NearLimitRatio: 0.8, ExpirationJitterMaxSeconds: 300,
		LimitLimitHeader: "RateLimit-Limit", LimitRemainingHeader: "RateLimit-Remaining", LimitResetHeader: "RateLimit-Reset",
		BackendType:    "redis",
		Redis:          Redis{SocketType: "unix", Type: "SINGLE", URL: "/var/run/nutcracker/ratelimit.sock"},
		PerSecond:      Redis{SocketType: "unix", Type: "SINGLE", URL: "/var/run/nutcracker/ratelimitpersecond.sock"},
		PrometheusAddr: ":9090", PrometheusPath: "/metrics",
	}
}

// one is a variable, a value, and what it changes.
var one = []struct {
	variable string
	change   func(*Settings)
}{
	{"HOST=::1", func(s *Settings) { s.Host = "::1" }},
	{"PORT=0", func(s *Settings) { s.Port = 0 }},
	{"DEBUG_HOST=h", func(s *Settings) { s.DebugHost = "h" }},
	{"DEBUG_PORT=65535", func(s *Settings) { s.DebugPort = 65535 }},
	{"GRPC_UDS=/run/rls.sock", func(s *Settings) { s.GRPCUds = "/run/rls.sock" }},
	{"GRPC_HOST=", func(s *Settings) { s.GRPCHost = "" }},
	{"GRPC_PORT=1", func(s *Settings) { s.GRPCPort = 1 }},
	{"GRPC_MAX_CONNECTION_AGE=5m", func(s *Settings) { s.GRPCMaxConnectionAge = 5 * time.Minute }},
	{"GRPC_MAX_CONNECTION_AGE_GRACE=10s", func(s *Settings) { s.GRPCMaxConnectionAgeGrace = 10 * time.Second }},
	{"GRPC_SERVER_USE_TLS=false", func(s *Settings) {}},
	{"GRPC_SERVER_TLS_CERT=c", func(s *Settings) { s.GRPCServerTLSCert = "c" }},
	{"GRPC_SERVER_TLS_KEY=k", func(s *Settings) { s.GRPCServerTLSKey = "k" }},
	{"GRPC_CLIENT_TLS_CACERT=a", func(s *Settings) { s.GRPCClientTLSCACert = "a" }},
	{"GRPC_CLIENT_TLS_SAN=n", func(s *Settings) { s.GRPCClientTLSSAN = "n" }},
	{"LOG_LEVEL=Debug", func(s *Settings) { s.LogLevel = "Debug" }},
	{"LOG_FORMAT=json", func(s *Settings) { s.LogFormat = "json" }},
	{"RUNTIME_ROOT=/r", func(s *Settings) { s.RuntimeRoot = "/r" }},
	{"RUNTIME_SUBDIRECTORY=ratelimit", func(s *Settings) { s.RuntimeSubdirectory = "ratelimit" }},
	{"RUNTIME_APPDIRECTORY=", func(s *Settings) { s.RuntimeAppDirectory = "" }},
	{"RUNTIME_IGNOREDOTFILES=true", func(s *Settings) { s.RuntimeIgnoreDotFiles = true }},
	{"RUNTIME_WATCH_ROOT=f", func(s *Settings) { s.RuntimeWatchRoot = false }},
	{"MERGE_DOMAIN_CONFIG=1", func(s *Settings) { s.MergeDomainConfig = true }},
	{"CONFIG_TYPE=GRPC_XDS_SOTW", func(s *Settings) { s.ConfigType = "GRPC_XDS_SOTW" }},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG=true", func(s *Settings) { s.ForceStartWithoutInitialConfig = true }},
	{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", func(s *Settings) { s.HealthyWithAtLeastOneConfigLoaded = true }},
	{"CONFIG_GRPC_XDS_NODE_ID=gw", func(s *Settings) { s.XDS.NodeID = "gw" }},
	{"CONFIG_GRPC_XDS_NODE_METADATA=a=1, b:2", func(s *Settings) { s.XDS.NodeMetadata = map[string]string{"a": "1", "b": "2"} }},
	{"CONFIG_GRPC_XDS_SERVER_URL=cp:18001", func(s *Settings) { s.XDS.ServerURL = "cp:18001" }},
	{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x-a:1,x-b:y=z", func(s *Settings) { s.XDS.Headers = map[string]string{"x-a": "1", "x-b": "y=z"} }},
	{"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", func(s *Settings) { s.XDS.UseTLS = true }},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=c", func(s *Settings) { s.XDS.ClientCert = "c" }},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=k", func(s *Settings) { s.XDS.ClientKey = "k" }},
	{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=a", func(s *Settings) { s.XDS.ServerCA = "a" }},
	{"CONFIG_GRPC_XDS_SERVER_TLS_SAN=n", func(s *Settings) { s.XDS.ServerSAN = "n" }},
	{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=1s", func(s *Settings) { s.XDS.BackoffInitial = time.Second }},
	{"XDS_CLIENT_BACKOFF_MAX_INTERVAL=2m", func(s *Settings) { s.XDS.BackoffMax = 2 * time.Minute }},
	{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0", func(s *Settings) { s.XDS.BackoffFactor = 0 }},
	{"XDS_CLIENT_BACKOFF_JITTER=false", func(s *Settings) { s.XDS.BackoffJitter = false }},
	{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=8388608", func(s *Settings) { s.XDS.MaxMessage = 8 << 20 }},
	{"CACHE_KEY_PREFIX=pre:", func(s *Settings) { s.CacheKeyPrefix = "pre:" }},
	{"LOCAL_CACHE_SIZE_IN_BYTES=1048576", func(s *Settings) { s.LocalCacheSizeInBytes = 1 << 20 }},
	{"NEAR_LIMIT_RATIO=1", func(s *Settings) { s.NearLimitRatio = 1 }},
	{"EXPIRATION_JITTER_MAX_SECONDS=0", func(s *Settings) { s.ExpirationJitterMaxSeconds = 0 }},
	{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true", func(s *Settings) { s.StopCacheKeyIncrementWhenOverlimit = true }},
	{"SHADOW_MODE=true", func(s *Settings) { s.ShadowMode = true }},
	{"QUOTA_MODE=true", func(s *Settings) { s.QuotaMode = true }},
	{"RESPONSE_DYNAMIC_METADATA=true", func(s *Settings) { s.ResponseDynamicMetadata = true }},
	{"LIMIT_RESPONSE_HEADERS_ENABLED=true", func(s *Settings) { s.LimitResponseHeadersEnabled = true }},
	{"LIMIT_LIMIT_HEADER=l", func(s *Settings) { s.LimitLimitHeader = "l" }},
	{"LIMIT_REMAINING_HEADER=r", func(s *Settings) { s.LimitRemainingHeader = "r" }},
	{"LIMIT_RESET_HEADER=t", func(s *Settings) { s.LimitResetHeader = "t" }},
	{"BACKEND_TYPE=redis", func(s *Settings) {}},
	{"REDIS_SOCKET_TYPE=Unix", func(s *Settings) { s.Redis.SocketType = "Unix" }},
	{"REDIS_TYPE=Cluster", func(s *Settings) { s.Redis.Type = "Cluster" }},
	{"REDIS_URL=/r.sock", func(s *Settings) { s.Redis.URL = "/r.sock" }},
	{"REDIS_AUTH=p", func(s *Settings) { s.Redis.Auth = "p" }},
	{"REDIS_SENTINEL_AUTH=p", func(s *Settings) { s.Redis.SentinelAuth = "p" }},
	{"REDIS_TLS=true", func(s *Settings) { s.Redis.TLS = true }},
	{"REDIS_TLS_CLIENT_CERT=c", func(s *Settings) { s.RedisTLS.ClientCert = "c" }},
	{"REDIS_TLS_CLIENT_KEY=k", func(s *Settings) { s.RedisTLS.ClientKey = "k" }},
	{"REDIS_TLS_CACERT=a", func(s *Settings) { s.RedisTLS.CACert = "a" }},
	{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true", func(s *Settings) { s.RedisTLS.SkipHostnameVerification = true }},
	{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", func(s *Settings) { s.RedisHealthCheckActiveConnection = true }},
	{"REDIS_PERSECOND=true", func(s *Settings) { s.PerSecondRedis = true }},
	{"REDIS_PERSECOND_SOCKET_TYPE=tcp", func(s *Settings) { s.PerSecond.SocketType = "tcp" }},
	{"REDIS_PERSECOND_TYPE=sentinel", func(s *Settings) { s.PerSecond.Type = "sentinel" }},
	{"REDIS_PERSECOND_URL=h:1", func(s *Settings) { s.PerSecond.URL = "h:1" }},
	{"REDIS_PERSECOND_AUTH=u:p", func(s *Settings) { s.PerSecond.Auth = "u:p" }},
	{"REDIS_PERSECOND_SENTINEL_AUTH=p", func(s *Settings) { s.PerSecond.SentinelAuth = "p" }},
	{"REDIS_PERSECOND_TLS=true", func(s *Settings) { s.PerSecond.TLS = true }},
	{"USE_PROMETHEUS=true", func(s *Settings) { s.UsePrometheus = true }},
	{"PROMETHEUS_ADDR=:1", func(s *Settings) { s.PrometheusAddr = ":1" }},
	{"PROMETHEUS_PATH=/m", func(s *Settings) { s.PrometheusPath = "/m" }},
}

// Each variable changes its own field and nothing else, the last of a name counts, and without any the
// settings are that program's defaults.
func TestEachVariable(t *testing.T) {
	names := map[string]bool{}
	for _, v := range one {
		name, _, _ := strings.Cut(v.variable, "=")
		names[name] = true
		want := defaults()
		v.change(&want)
		got, problems := Read([]string{name + "=first", "UNRELATED=1", v.variable})
		if diff := cmp.Diff(want, got); diff != "" || config.HasErrors(problems) {
			t.Errorf("%s: %v (-want +got):\n%s", v.variable, problems, diff)
		}
	}
	for _, empty := range [][]string{nil, {"PORT=", "GRPC_MAX_CONNECTION_AGE=", "SHADOW_MODE=", "NEAR_LIMIT_RATIO="}} {
		if got, problems := Read(empty); !cmp.Equal(defaults(), got) || problems != nil {
			t.Errorf("%v: %v (-want +got):\n%s", empty, problems, cmp.Diff(defaults(), got))
		}
	}
	for _, name := range variablesOf(reflect.TypeFor[Settings](), "") {
		if !names[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
}

func variablesOf(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("env"); name != "" {
			names = append(names, prefix+name)
		} else if f.Type.Kind() == reflect.Struct {
			names = append(names, variablesOf(f.Type, prefix+f.Tag.Get("prefix"))...)
		}
	}
	return names
}

// A bad value is a problem that names its variable, and the default stays.
func TestBadValues(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"PORT=65536", `environment: PORT: "65536": want a whole number from 0 to 65535`},
		{"PORT=-1", `environment: PORT: "-1": want a whole number from 0 to 65535`},
		{"PORT=tcp://10.0.0.1:80", `environment: PORT: "tcp://10.0.0.1:80": want a whole number from 0 to 65535`},
		{"SHADOW_MODE=yes", `environment: SHADOW_MODE: "yes": want true or false`},
		{"GRPC_MAX_CONNECTION_AGE=5", `environment: GRPC_MAX_CONNECTION_AGE: "5": want a duration, as in 30s`},
		{"GRPC_MAX_CONNECTION_AGE=-5s", `environment: GRPC_MAX_CONNECTION_AGE: "-5s": want a duration, as in 30s`},
		{"NEAR_LIMIT_RATIO=1.1", `environment: NEAR_LIMIT_RATIO: "1.1": want a number from 0 to 1`},
		{"NEAR_LIMIT_RATIO=NaN", `environment: NEAR_LIMIT_RATIO: "NaN": want a number from 0 to 1`},
		{"CONFIG_TYPE=consul", `environment: CONFIG_TYPE: "consul": want one of file, grpc_xds_sotw`},
		{"BACKEND_TYPE=memcache", `environment: BACKEND_TYPE: "memcache": want one of redis`},
		{"REDIS_TYPE=", `environment: REDIS_TYPE: "": want one of single, sentinel, cluster`},
		{"CONFIG_GRPC_XDS_NODE_METADATA=a", `environment: CONFIG_GRPC_XDS_NODE_METADATA: "a": want pairs, as in k1=v1,k2=v2`},
		{"XDS_CLIENT_BACKOFF_MAX_INTERVAL=9s", "environment: XDS_CLIENT_BACKOFF_MAX_INTERVAL: 9s: want at least XDS_CLIENT_BACKOFF_INITIAL_INTERVAL, 10s"},
		{"GRPC_SERVER_USE_TLS=true", "environment: GRPC_SERVER_TLS_CERT: not set beside GRPC_SERVER_USE_TLS: want the file of a certificate"},
		{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c", "environment: GRPC_SERVER_TLS_KEY: not set beside GRPC_SERVER_TLS_CERT: want both"},
		{"CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_CLIENT_TLS_KEY=k", "environment: CONFIG_GRPC_XDS_CLIENT_TLS_CERT: not set beside CONFIG_GRPC_XDS_CLIENT_TLS_KEY: want both"},
		{"REDIS_URL=h:6379", "environment: REDIS_URL: no server that a unix socket leads to: want HOST:PORT with REDIS_SOCKET_TYPE=tcp, or the path of a unix socket"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=secret@h", "environment: REDIS_URL: no server that a tcp socket leads to: want HOST:PORT with REDIS_SOCKET_TYPE=tcp, or the path of a unix socket"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_TYPE=sentinel REDIS_URL=master", "environment: REDIS_URL: no Sentinel behind the master's name: want MASTER,HOST:PORT,HOST:PORT"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=a:1,b:2", "environment: REDIS_URL: several servers: want one, or REDIS_TYPE=cluster"},
		{"REDIS_PERSECOND=true REDIS_PERSECOND_URL=h:1", "environment: REDIS_PERSECOND_URL: no server that a unix socket leads to: want HOST:PORT with REDIS_PERSECOND_SOCKET_TYPE=tcp, or the path of a unix socket"},
		{"REDIS_TLS=true REDIS_TLS_CLIENT_KEY=k", "environment: REDIS_TLS_CLIENT_CERT: not set beside REDIS_TLS_CLIENT_KEY: want both"},
		{"REDIS_TLS=true REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true", "environment: warning: REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: the name is verified all the same: give the server a certificate for its name"},
	} {
		_, problems := Read(strings.Fields(c.variable))
		if len(problems) != 1 || problems[0].String() != c.want {
			t.Errorf("%s: %v\nwant %s", c.variable, problems, c.want)
		}
	}
	s, _ := Read([]string{"PORT=x", "CONFIG_GRPC_XDS_NODE_METADATA=x"})
	if diff := cmp.Diff(defaults(), s); diff != "" {
		t.Errorf("the defaults do not stay (-want +got):\n%s", diff)
	}
}

// What has no effect, and what a newer version may know, is gathered for one line; what only looks alike
// is left alone.
func TestIgnoredVariables(t *testing.T) {
	environ := []string{
		"REDIS_POOL_ON_EMPTY_BEHAVIOR=CREATE", "REDIS_PERSECOND_POOL_SIZE=5", "REDIS_PIPELINE_WINDOW=150us", "USE_STATSD=false",
		"MEMCACHE_HOST_PORT=h:1", "TRACING_ENABLED=true", "REDIS_NEW_SETTING=1", "RUNTIME_NEW=1", "PATH=/bin", "HOME=/",
		"REDIS_SERVICE_HOST=10.0.0.1", "REDIS_SERVICE_PORT_REDIS=6379", "REDIS_PORT=tcp://10.0.0.1:6379", "REDIS_PORT_6379_TCP_ADDR=10.0.0.1",
		"GRPC_GO_LOG_SEVERITY_LEVEL=info", "GRPC_XDS_BOOTSTRAP=/x",
	}
	s, problems := Read(environ)
	want := []string{
		"MEMCACHE_HOST_PORT", "REDIS_NEW_SETTING", "REDIS_PERSECOND_POOL_SIZE", "REDIS_PIPELINE_WINDOW",
		"REDIS_POOL_ON_EMPTY_BEHAVIOR", "RUNTIME_NEW", "TRACING_ENABLED", "USE_STATSD",
	}
	if diff := cmp.Diff(want, s.Ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	line := "environment: warning: no effect in Weir: " + strings.Join(want, ", ") + ": nothing has to be done"
	if len(problems) != 1 || problems[0].String() != line {
		t.Errorf("%v, want %s", problems, line)
	}
}

// An environment that says where such a configuration is can be told from one that does not.
func TestPresent(t *testing.T) {
	for variable, want := range map[string]bool{
		"RUNTIME_ROOT=/r": true, "RUNTIME_SUBDIRECTORY=s": true, "CONFIG_TYPE=FILE": true,
		"RUNTIME_ROOT=": false, "PORT=80": false, "REDIS_URL=x": false, "": false,
	} {
		if got := Present([]string{"HOME=/", variable}); got != want {
			t.Errorf("%s: %v, want %v", variable, got, want)
		}
	}
}

// The store's words are those of store.redis, and a store that is made of them does not object.
func TestStoreWords(t *testing.T) {
	for _, c := range []struct {
		environ string
		want    config.Redis
	}{
		{"", config.Redis{URL: "unix:///var/run/nutcracker/ratelimit.sock"}},
		{"SOCKET_TYPE=tcp URL=redis:6379", config.Redis{URL: "redis://redis:6379"}},
		{"SOCKET_TYPE=tcp URL=[::1]:6379 AUTH=p:w:1", config.Redis{URL: "redis://[::1]:6379", Username: "p", Password: "w:1"}},
		{"SOCKET_TYPE=tcp URL=h:1 AUTH=p@/ss", config.Redis{URL: "redis://h:1", Password: "p@/ss"}},
		{"SOCKET_TYPE=tcp URL=h:1 TLS=true", config.Redis{URL: "rediss://h:1", TLS: config.RedisTLS{CA: "a", Cert: "c", Key: "k"}}},
		{"SOCKET_TYPE=tcp URL=redis://u:p@h:1/2 TLS=true", config.Redis{URL: "rediss://u:p@h:1/2", TLS: config.RedisTLS{CA: "a", Cert: "c", Key: "k"}}},
		{"SOCKET_TYPE=tcp TYPE=CLUSTER URL=a:1,b:2,c:3", config.Redis{URL: "redis://a:1,redis://b:2,redis://c:3"}},
		{"SOCKET_TYPE=tcp TYPE=Sentinel URL=m,a:1,b:2 AUTH=p", config.Redis{URL: "redis://a:1,redis://b:2", Password: "p", SentinelMaster: "m"}},
		{"SOCKET_TYPE=tcp TYPE=sentinel URL=m,a:1 AUTH=p SENTINEL_AUTH=s@x", config.Redis{URL: "redis://:s%40x@a:1", Password: "p", SentinelMaster: "m"}},
		{"SOCKET_TYPE=tcp TYPE=sentinel URL=m,a:1 AUTH=p SENTINEL_AUTH=u:s", config.Redis{URL: "redis://u:s@a:1", Password: "p", SentinelMaster: "m"}},
	} {
		for _, prefix := range []string{"REDIS_", "REDIS_PERSECOND_"} {
			environ := []string{"REDIS_PERSECOND=true", "REDIS_TLS_CLIENT_CERT=c", "REDIS_TLS_CLIENT_KEY=k", "REDIS_TLS_CACERT=a"}
			for _, kv := range strings.Fields(c.environ) {
				environ = append(environ, prefix+kv)
			}
			s, problems := Read(environ)
			got, want := s.Store(), c.want
			if prefix == "REDIS_PERSECOND_" {
				got, want.URL = s.PerSecondStore(), config.Secret(strings.Replace(string(want.URL), "ratelimit.sock", "ratelimitpersecond.sock", 1))
			}
			if diff := cmp.Diff(want, got); diff != "" || problems != nil {
				t.Errorf("%s%s: %v (-want +got):\n%s", prefix, c.environ, problems, diff)
			}
			o := redis.Options{URL: string(got.URL), Username: got.Username, Password: string(got.Password), SentinelMaster: got.SentinelMaster}
			if err := o.Check(); err != nil {
				t.Errorf("%s: %v", c.environ, err)
			}
		}
	}
}

// What the settings amount to, in Weir's words.
func TestSettingsInWeirsWords(t *testing.T) {
	s, _ := Read([]string{"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "MERGE_DOMAIN_CONFIG=true", "HOST=::1"})
	got := []string{s.ConfigPath(), s.GRPCListen(), s.HTTPListen(), s.DebugListen()}
	want := []string{"/data/ratelimit/config", "0.0.0.0:8081", "[::1]:8080", "0.0.0.0:6070"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if o := s.Options(); o != (descriptors.Options{MergeDomains: true, IgnoreDotFiles: true}) {
		t.Errorf("%+v", o)
	}
	s.GRPCUds = "/run/rls.sock"
	if got := s.GRPCListen(); got != "unix:/run/rls.sock" {
		t.Error(got)
	}
}

// Whatever is in the environment, it is read, and every problem has a variable and a cure.
func FuzzRead(f *testing.F) {
	for _, v := range one {
		f.Add(v.variable)
	}
	f.Add("REDIS_TYPE=sentinel\nREDIS_URL=,,\nREDIS_TLS=1")
	f.Fuzz(func(t *testing.T, text string) {
		s, problems := Read(strings.Split(text, "\n"))
		_, _, _ = s.Store(), s.PerSecondStore(), s.ConfigPath()
		for _, p := range problems {
			if p.What == "" || p.Cure == "" || p.Field == "" && len(s.Ignored) == 0 {
				t.Errorf("%#v", p)
			}
		}
	})
}
