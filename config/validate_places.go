package config

import (
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// ReadsKeys reports whether requests are asked for API keys. Weir reads none where the file does not speak of them:
// the service behind it may have keys of its own in the same header.
func (c *Config) ReadsKeys() bool {
	speaks := c.Given("keys") || c.Keys.Bearer || c.Keys.Query != "" || c.Keys.PostgresURL != "" ||
		!c.HasJWT() && (len(c.Plans) > 0 || c.NeedsKeys())
	return speaks && c.hasKeyPlace()
}

// hasKeyPlace reports whether there is a place where a key could be.
func (c *Config) hasKeyPlace() bool {
	return c.Keys.Header != "" || c.Keys.Bearer || c.Keys.Query != ""
}

// keys judges where API keys are read and kept.
func (k *checker) keys() {
	k.want("keys.header", k.Keys.Header, wantKeyHeader(k.Keys.Header))
	k.want("keys.query", k.Keys.Query, wantParameter(k.Keys.Query))
	if k.Keys.PostgresURL != "" && !isPostgres(string(k.Keys.PostgresURL)) {
		k.wrong("keys.postgres_url", "no URL of a PostgreSQL database", "want a URL, as in postgres://weir@db.example.com:5432/weir")
	}
	k.span("keys.grace", k.Keys.Grace, 0, Duration(24*time.Hour))
	if k.Keys.Query != "" {
		k.doubt("keys.query", "keys in URLs leak: into logs, histories and the Referer field", "use the header, and remove it")
	}
	if k.Keys.ForwardSecret {
		k.doubt("keys.forward_secret", "the service behind gets the keys of its clients", "let it go by X-Weir-Key-Id, and remove this")
	}
}

// wantKeyHeader judges the field that bears API keys. Some have a meaning that a key would break, and to take them
// off a request would break the service.
func wantKeyHeader(name string) string {
	if want := wantToken(name); want != "" {
		return want
	}
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Authorization":
		return "want keys: {bearer: true} for Authorization: Bearer"
	case "Host", "Cookie", "Connection", "Content-Type", "Content-Length", "Transfer-Encoding", "Te", "Upgrade", "Forwarded", "X-Forwarded-For", "X-Real-Ip":
		return "want a header of its own, as in X-API-Key"
	}
	if strings.HasPrefix(strings.ToLower(name), "x-weir-") {
		return "want a header of its own, as in X-API-Key: X-Weir- is what Weir says"
	}
	return ""
}

// wantParameter judges the name of a query's parameter.
func wantParameter(name string) string {
	if url.QueryEscape(name) != name || len(name) > 64 {
		return "want letters, digits, -, _ and ., as in api_key"
	}
	return ""
}

// isPostgres reports whether text is the URL of a database. It may hold a password, so that no problem shows it.
func isPostgres(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}
