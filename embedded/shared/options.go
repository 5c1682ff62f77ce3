package shared

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/store/redis"
)

// Check returns what is wrong with the words of c about Redis, as far as no server has to be asked.
func Check(c *config.Config) []config.Problem {
	if c.Store.Redis.URL == "" || c.Broken("store.redis") {
		return nil
	}
	field := "store.redis"
	o, err := options(c)
	if err == nil {
		field, err = "store.redis.url", o.Check()
	}
	if err == nil {
		return nil
	}
	return []config.Problem{c.Problem(field, err.Error(), "as in redis: {url: \"redis://127.0.0.1:6379/0\"}")}
}

// options returns what c says of Redis. An error says which file cannot be used.
func options(c *config.Config) (redis.Options, error) {
	r := c.Store.Redis
	o := redis.Options{
		URL: string(r.URL), Timeout: time.Duration(r.Timeout), Prefix: r.Prefix,
		Username: r.Username, Password: string(r.Password), SentinelMaster: r.SentinelMaster,
	}
	if r.TLS == (config.RedisTLS{}) {
		return o, nil
	}
	o.TLS = &tls.Config{ServerName: r.TLS.ServerName, MinVersion: tls.VersionTLS12}
	if r.TLS.CA != "" {
		pem, err := os.ReadFile(r.TLS.CA)
		if err != nil {
			return o, fmt.Errorf("store.redis.tls.ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("store.redis.tls.ca: %s holds no PEM certificate", r.TLS.CA)
		}
	}
	if r.TLS.Cert != "" || r.TLS.Key != "" {
		pair, err := tls.LoadX509KeyPair(r.TLS.Cert, r.TLS.Key)
		if err != nil {
			return o, fmt.Errorf("store.redis.tls: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}
