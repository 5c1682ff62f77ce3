// Package environment reads the environment variables of envoyproxy/ratelimit, so that Weir can be put
// in its place with the same deployment.
//
// What Weir does otherwise than that program says so where it stands; the variables that have no effect
// here are gathered, for one line of the log.
package environment

import (
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// Settings are what the environment says. Each field names its variable, and its default is that of
// envoyproxy/ratelimit.
type Settings struct {
	// Address of /json and /healthcheck.
	Host string `env:"HOST" default:"0.0.0.0"`
	Port int    `env:"PORT" default:"8080" max:"65535"`
	// Address of the debug listener.
	DebugHost string `env:"DEBUG_HOST" default:"0.0.0.0"`
	DebugPort int    `env:"DEBUG_PORT" default:"6070" max:"65535"`
	// Path of a unix socket for gRPC, in place of the address that follows.
	GRPCUds  string `env:"GRPC_UDS"`
	GRPCHost string `env:"GRPC_HOST" default:"0.0.0.0"`
	GRPCPort int    `env:"GRPC_PORT" default:"8081" max:"65535"`

	// How long a gRPC connection is used, and how long its calls may then go on.
	GRPCMaxConnectionAge      time.Duration `env:"GRPC_MAX_CONNECTION_AGE" default:"24h"`
	GRPCMaxConnectionAgeGrace time.Duration `env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h"`
	// Whether the gRPC listener speaks TLS, with this certificate and key, PEM. With a CA every client
	// must show a certificate of it, and with a SAN one for that name.
	GRPCServerUseTLS    bool   `env:"GRPC_SERVER_USE_TLS"`
	GRPCServerTLSCert   string `env:"GRPC_SERVER_TLS_CERT"`
	GRPCServerTLSKey    string `env:"GRPC_SERVER_TLS_KEY"`
	GRPCClientTLSCACert string `env:"GRPC_CLIENT_TLS_CACERT"`
	GRPCClientTLSSAN    string `env:"GRPC_CLIENT_TLS_SAN"`

	// Least level that is logged, in any case, and the form of a line.
	LogLevel  string `env:"LOG_LEVEL" default:"WARN" oneof:"trace,debug,info,warn,warning,error,fatal,panic"`
	LogFormat string `env:"LOG_FORMAT" default:"text" oneof:"text,json"`

	// Where the files of the configuration are: in the folder that the three make. Weir follows links
	// and files whatever RUNTIME_WATCH_ROOT says.
	RuntimeRoot           string `env:"RUNTIME_ROOT" default:"/srv/runtime_data/current"`
	RuntimeSubdirectory   string `env:"RUNTIME_SUBDIRECTORY"`
	RuntimeAppDirectory   string `env:"RUNTIME_APPDIRECTORY" default:"config"`
	RuntimeIgnoreDotFiles bool   `env:"RUNTIME_IGNOREDOTFILES"`
	RuntimeWatchRoot      bool   `env:"RUNTIME_WATCH_ROOT" default:"true"`
	// Whether several files may say something of one domain.
	MergeDomainConfig bool `env:"MERGE_DOMAIN_CONFIG"`

	// Where the configuration comes from: FILE or GRPC_XDS_SOTW.
	ConfigType string `env:"CONFIG_TYPE" default:"FILE" oneof:"file,grpc_xds_sotw"`
	// Whether to start before there is a configuration, and whether to be unhealthy until then.
	ForceStartWithoutInitialConfig    bool `env:"FORCE_START_WITHOUT_INITIAL_CONFIG"`
	HealthyWithAtLeastOneConfigLoaded bool `env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"`
	XDS                               XDS

	// What every store key begins with.
	CacheKeyPrefix string `env:"CACHE_KEY_PREFIX"`
	// Size of the memory of refused keys; 0 is none.
	LocalCacheSizeInBytes int `env:"LOCAL_CACHE_SIZE_IN_BYTES" max:"1073741824"`
	// From which part of a limit on a hit is near it.
	NearLimitRatio float64 `env:"NEAR_LIMIT_RATIO" default:"0.8"`
	// Most seconds that a key is kept longer than its window.
	ExpirationJitterMaxSeconds int `env:"EXPIRATION_JITTER_MAX_SECONDS" default:"300" max:"31536000"`
	// Whether the other keys of a request are spared once one is over its limit.
	StopCacheKeyIncrementWhenOverlimit bool `env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"`

	// Whether every answer is OK, and whether every descriptor is a quota.
	ShadowMode bool `env:"SHADOW_MODE"`
	QuotaMode  bool `env:"QUOTA_MODE"`
	// Whether answers carry metadata, and headers with these names.
	ResponseDynamicMetadata     bool   `env:"RESPONSE_DYNAMIC_METADATA"`
	LimitResponseHeadersEnabled bool   `env:"LIMIT_RESPONSE_HEADERS_ENABLED"`
	LimitLimitHeader            string `env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit"`
	LimitRemainingHeader        string `env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining"`
	LimitResetHeader            string `env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset"`

	// The shared store, and the one for limits per second if PerSecondRedis.
	BackendType                      string `env:"BACKEND_TYPE" default:"redis" oneof:"redis"`
	Redis                            Redis  `prefix:"REDIS_"`
	PerSecondRedis                   bool   `env:"REDIS_PERSECOND"`
	PerSecond                        Redis  `prefix:"REDIS_PERSECOND_"`
	RedisTLS                         RedisTLS
	RedisHealthCheckActiveConnection bool `env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"`

	// Whether metrics are served for Prometheus, and where.
	UsePrometheus  bool   `env:"USE_PROMETHEUS"`
	PrometheusAddr string `env:"PROMETHEUS_ADDR" default:":9090"`
	PrometheusPath string `env:"PROMETHEUS_PATH" default:"/metrics"`

	// Ignored are the variables that are set and have no effect in Weir, and those that look like the
	// program's and are unknown, by name.
	Ignored []string
}

// XDS says where a configuration of type GRPC_XDS_SOTW comes from.
type XDS struct {
	NodeID       string            `env:"CONFIG_GRPC_XDS_NODE_ID" default:"default"`
	NodeMetadata map[string]string `env:"CONFIG_GRPC_XDS_NODE_METADATA"` // as k1=v1,k2=v2
	ServerURL    string            `env:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000"`
	Headers      map[string]string `env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"` // as k1:v1,k2:v2

	UseTLS     bool   `env:"CONFIG_GRPC_XDS_SERVER_USE_TLS"`
	ClientCert string `env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	ClientKey  string `env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`
	ServerCA   string `env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	ServerSAN  string `env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`

	// How long to wait before the server is tried again: from the first interval, doubled at each
	// failure, up to the last, each time more or less by the factor if Jitter.
	BackoffInitial time.Duration `env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s"`
	BackoffMax     time.Duration `env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s"`
	BackoffFactor  float64       `env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5"`
	BackoffJitter  bool          `env:"XDS_CLIENT_BACKOFF_JITTER" default:"true"`
	// Largest answer in bytes; 0 stands for the default of gRPC.
	MaxMessage int `env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" max:"2147483647"`
}

// Redis says where one store is.
type Redis struct {
	// tcp or unix.
	SocketType string `env:"SOCKET_TYPE" default:"unix" oneof:"unix,tcp,tcp4,tcp6"`
	// single, sentinel or cluster, in any case.
	Type string `env:"TYPE" default:"SINGLE" oneof:"single,sentinel,cluster"`
	// Path or HOST:PORT. Of sentinel: the master's name, then the Sentinels, separated by commas. Of
	// cluster: nodes, separated by commas.
	URL string `env:"URL"`
	// Password, or USER:PASSWORD.
	Auth         config.Secret `env:"AUTH"`
	SentinelAuth config.Secret `env:"SENTINEL_AUTH"`
	TLS          bool          `env:"TLS"`
}

// RedisTLS are the files, PEM, for every store that speaks TLS.
type RedisTLS struct {
	ClientCert string `env:"REDIS_TLS_CLIENT_CERT"`
	ClientKey  string `env:"REDIS_TLS_CLIENT_KEY"`
	CACert     string `env:"REDIS_TLS_CACERT"`
	// Weir verifies the name all the same.
	SkipHostnameVerification bool `env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"`
}

// ConfigPath returns the folder that the configuration's files are in.
func (s *Settings) ConfigPath() string {
	return filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory, s.RuntimeAppDirectory)
}

// Options returns how they are read.
func (s *Settings) Options() descriptors.Options {
	return descriptors.Options{MergeDomains: s.MergeDomainConfig, IgnoreDotFiles: s.RuntimeIgnoreDotFiles}
}

// GRPCListen returns the address of the gRPC listener as Weir writes it, as in 0.0.0.0:8081 or
// unix:/run/rls.sock.
func (s *Settings) GRPCListen() string {
	if s.GRPCUds != "" {
		return "unix:" + s.GRPCUds
	}
	return listen(s.GRPCHost, s.GRPCPort)
}

// HTTPListen returns the address of /json and /healthcheck.
func (s *Settings) HTTPListen() string { return listen(s.Host, s.Port) }

// DebugListen returns the address of the debug listener.
func (s *Settings) DebugListen() string { return listen(s.DebugHost, s.DebugPort) }

func listen(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
