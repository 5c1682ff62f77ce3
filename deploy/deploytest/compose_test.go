package deploytest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirgate/weir/internal/proctest"
)

// TestCaddyfileIsValid has Caddy judge the file as it is shipped.
func TestCaddyfileIsValid(t *testing.T) {
	t.Parallel()
	caddy := program(t, "caddy")
	dir := t.TempDir()
	file := write(t, dir, "Caddyfile", shipped(t, "compose/Caddyfile"))
	succeed(t, dir, "env", "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, caddy, "validate", "--adapter", "caddyfile", "--config", file)
}

// TestComposeStandsUp starts Caddy, Weir and Redis from the files of the example, on loopback addresses in place of
// its names, and asks: the service gets the client's address, whatever the client says, and Redis counts.
func TestComposeStandsUp(t *testing.T) {
	t.Parallel()
	s := standUp(t)
	for _, c := range []struct{ from, says, want string }{
		{"127.0.0.71", "", "127.0.0.71"},
		{"127.0.0.72", "203.0.113.7", "127.0.0.72"},
		{"127.0.0.73", "172.30.0.2, 127.0.0.71", "127.0.0.73"},
	} {
		status, body := s.get(t, c.from, c.says)
		if status != http.StatusOK || body != c.want {
			t.Errorf("from %s, which says %q: HTTP status %d, the service sees %q, want 200 and %q\n%s", c.from, c.says, status, body, c.want, s.weir.Log())
		}
	}
	if n := s.redis.Keys(t); n < 3 {
		t.Errorf("%d keys in Redis, want one for each of 3 clients", n)
	}
}

// A stand is the example, standing.
type stand struct {
	entry string
	weir  *proctest.Process
	redis redisAt
}

// standUp starts what compose.yaml starts.
func standUp(t *testing.T) stand {
	t.Helper()
	weir, caddy, redis := weirBinary(t), program(t, "caddy"), program(t, "redis-server")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Join(r.Header.Values("X-Forwarded-For"), " and "))
	}))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	s := stand{entry: proctest.Free(t), redis: redisAt(proctest.Free(t))}
	front, admin := proctest.Free(t), proctest.Free(t)
	token := write(t, dir, "token", "a secret of thirty-two characters")

	host, port, _ := net.SplitHostPort(string(s.redis))
	run(t, string(s.redis), dir, redis, append(composeCommand(t, "redis")[1:], "--bind", host, "--port", port)...)

	config := replaced(t, shipped(t, "compose/weir/weir.yaml"), map[string]string{
		`":8080"`: front, `":9090"`: admin, "http://app:3000": service.URL, "redis:6379": string(s.redis),
		"/var/lib/weir": filepath.Join(dir, "data"), "/run/secrets/weir_admin_token": token,
		"172.30.0.2": "127.0.0.1",
	})
	file := write(t, dir, "weir.yaml", config)
	succeed(t, "", weir, "check", "--strict", "-c", file)
	file = write(t, dir, "weir.yaml", replaced(t, config, map[string]string{"redis: {url": "redis: {timeout: 5s, url"})) // a busy machine is no outage
	s.weir = run(t, front, dir, weir, "run", "-c", file)

	host, port, _ = net.SplitHostPort(s.entry)
	main := "{\n\tadmin off\n\tauto_https off\n}\n" + replaced(t, shipped(t, "compose/Caddyfile"), map[string]string{
		"{$SITE::80} {": ":" + port + " {\n\tbind " + host, "weir:8080": front,
	})
	run(t, s.entry, dir, caddy, "run", "--adapter", "caddyfile", "--config", write(t, dir, "Caddyfile", main))
	return s
}

// composeCommand returns the command of a service of compose.yaml.
func composeCommand(t *testing.T, service string) []string {
	t.Helper()
	var file struct {
		Services map[string]struct{ Command []string }
	}
	if err := yaml.Unmarshal([]byte(shipped(t, "compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Services[service].Command
}

// replaced puts values in the place of texts, each of which must be there.
func replaced(t *testing.T, text string, by map[string]string) string {
	t.Helper()
	var pairs []string
	for old, new := range by {
		if !strings.Contains(text, old) {
			t.Fatalf("there is no %s in\n%s", old, text)
		}
		pairs = append(pairs, old, new)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// get asks from an address, with what the asker says of himself.
func (s stand) get(t *testing.T, from, says string) (status int, body string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, addr)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.entry+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if says != "" {
		req.Header.Set("X-Forwarded-For", says)
		req.Header.Set("X-Real-IP", says)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A redisAt is the address of a Redis.
type redisAt string

// Keys returns how many keys there are.
func (r redisAt) Keys(t *testing.T) (n int) {
	t.Helper()
	c, err := net.Dial("tcp", string(r))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "DBSIZE\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanf(c, ":%d\r\n", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSecretsAreWhereTheyAreRead ties compose.yaml to weir.yaml: names, folders and addresses that both have.
func TestSecretsAreWhereTheyAreRead(t *testing.T) {
	compose, config := shipped(t, "compose/compose.yaml"), shipped(t, "compose/weir/weir.yaml")
	for _, both := range []struct{ compose, config string }{
		{"secrets: [weir_admin_token]", "admin_token_file: /run/secrets/weir_admin_token"},
		{"weir_data:/var/lib/weir", "data_dir: /var/lib/weir"},
		{"ipv4_address: 172.30.0.2", "cidrs: [172.30.0.2]"},
		{"127.0.0.1:9090:9090", `admin: ":9090"`},
		{"\n  app:\n", `upstream: "http://app:3000"`},
		{"\n  redis:\n", "redis://redis:6379"},
	} {
		if !strings.Contains(compose, both.compose) || !strings.Contains(config, both.config) {
			t.Errorf("want %q in compose.yaml and %q in weir.yaml", both.compose, both.config)
		}
	}
	if !slices.Contains(composeCommand(t, "redis"), "noeviction") {
		t.Error("a full Redis would drop counters")
	}
}
