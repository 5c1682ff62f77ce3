package environment

import (
	"net"
	"net/url"
	"strings"

	"github.com/weirgate/weir/config"
)

// Store returns the shared store in the words of Weir's store.redis. Timeout and prefix are left to
// Weir's defaults.
func (s *Settings) Store() config.Redis { return s.Redis.words(&s.RedisTLS) }

// PerSecondStore returns the store that limits per second are counted in if PerSecondRedis.
func (s *Settings) PerSecondStore() config.Redis { return s.PerSecond.words(&s.RedisTLS) }

func (r *Redis) words(files *RedisTLS) config.Redis {
	var c config.Redis
	servers := strings.Split(r.URL, ",")
	password := ""
	if r.is("sentinel") {
		c.SentinelMaster, servers, password = strings.TrimSpace(servers[0]), servers[1:], string(r.SentinelAuth)
	}
	var urls []string
	for _, server := range servers {
		urls = append(urls, r.url(strings.TrimSpace(server), password))
	}
	c.URL = config.Secret(strings.Join(urls, ","))
	c.Password = r.Auth
	if user, password, ok := strings.Cut(string(r.Auth), ":"); ok {
		c.Username, c.Password = user, config.Secret(password)
	}
	if r.TLS {
		c.TLS = config.RedisTLS{CA: files.CACert, Cert: files.ClientCert, Key: files.ClientKey}
	}
	return c
}

// is reports whether the store is of a kind, which may be written in any case.
func (r *Redis) is(kind string) bool { return strings.EqualFold(r.Type, kind) }

// url returns the URL of one server. password is for those whose URL names none.
func (r *Redis) url(server, password string) string {
	if rest, ok := strings.CutPrefix(server, "redis://"); ok && r.TLS {
		return "rediss://" + rest
	}
	if strings.Contains(server, "://") {
		return server
	}
	u := url.URL{Scheme: "redis", Host: server}
	switch {
	case strings.EqualFold(r.SocketType, "unix"):
		u = url.URL{Scheme: "unix", Path: server}
	case r.TLS:
		u.Scheme = "rediss"
	}
	if password != "" {
		u.User = url.UserPassword("", password)
		if user, password, ok := strings.Cut(password, ":"); ok {
			u.User = url.UserPassword(user, password)
		}
	}
	return u.String()
}

// judgeStores says what is wrong with the words about Redis.
func (r *reader) judgeStores(s *Settings) {
	r.judgeStore("REDIS_", &s.Redis)
	if s.PerSecondRedis {
		r.judgeStore("REDIS_PERSECOND_", &s.PerSecond)
	}
	if !s.Redis.TLS && !(s.PerSecondRedis && s.PerSecond.TLS) {
		return
	}
	r.pair("REDIS_TLS_CLIENT_CERT", s.RedisTLS.ClientCert, "REDIS_TLS_CLIENT_KEY", s.RedisTLS.ClientKey)
	if s.RedisTLS.SkipHostnameVerification {
		r.idle("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "the name is verified all the same", "give the server a certificate for its name")
	}
}

func (r *reader) judgeStore(prefix string, s *Redis) {
	servers := strings.Split(s.URL, ",")
	if s.is("sentinel") {
		if servers = servers[1:]; len(servers) == 0 {
			r.wrong(prefix+"URL", "no Sentinel behind the master's name", "want MASTER,HOST:PORT,HOST:PORT")
		}
	} else if s.is("single") && len(servers) > 1 {
		r.wrong(prefix+"URL", "several servers", "want one, or "+prefix+"TYPE=cluster")
	}
	for _, server := range servers {
		if !s.plausible(strings.TrimSpace(server)) {
			r.wrong(prefix+"URL", "no server that a "+s.SocketType+" socket leads to", "want HOST:PORT with "+prefix+"SOCKET_TYPE=tcp, or the path of a unix socket")
			return
		}
	}
}

// plausible reports whether server is what the socket's type wants: a path, or a host and a port.
func (r *Redis) plausible(server string) bool {
	if strings.Contains(server, "://") {
		_, err := url.Parse(server)
		return err == nil
	}
	if strings.EqualFold(r.SocketType, "unix") {
		return strings.HasPrefix(server, "/")
	}
	_, port, err := net.SplitHostPort(server)
	return err == nil && port != ""
}
