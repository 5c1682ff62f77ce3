package replicas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/pgtest"
	"github.com/weirgate/weir/internal/redistest"
)

// A keyService says whose key a request bears, as it was told, and keeps all that it was sent.
type keyService struct {
	*httptest.Server
	mu   sync.Mutex
	sent bytes.Buffer
}

func startKeyService(t *testing.T) *keyService {
	s := new(keyService)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *keyService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.sent, r.RequestURI)
	_ = r.Header.Write(&s.sent) // into memory
	fmt.Fprint(w, "for ", r.Header.Get("X-Weir-Key-Id"))
}

// A madeKey is what the admin API answers.
type madeKey struct{ ID, Secret, State string }

// change asks the admin API of r, and returns the HTTP status.
func (r *replica) change(method, path, body string, into any) (int, error) {
	req, err := http.NewRequest(method, r.admin+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && into != nil && res.StatusCode < 300 {
		err = json.Unmarshal(text, into)
	}
	return res.StatusCode, err
}

// createKey creates a key.
func (r *replica) createKey(name string) madeKey {
	r.t.Helper()
	var made madeKey
	if status, err := r.change("POST", "/api/v1/keys", `{"name": "`+name+`"}`, &made); err != nil || status != 201 {
		r.t.Fatalf("%d, %v\n%s", status, err, r.log())
	}
	return made
}

// whose returns whose key the service behind r was told that a request bears; empty: nobody's, or it was refused.
func (r *replica) whose(target, secret string) string {
	r.t.Helper()
	req, err := http.NewRequest("GET", r.url+target, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if secret != "" {
		req.Header.Set("X-API-Key", secret)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.log())
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	id, ok := strings.CutPrefix(string(text), "for ")
	if res.StatusCode != http.StatusOK || !ok {
		return ""
	}
	return id
}

// Several processes on one PostgreSQL and one Redis: a key that one of them creates is good at all, and one that
// one of them revokes stops at all. The promise is a second; how long it took is in the log.
func TestKeysOfReplicas(t *testing.T) {
	service, database, redis := startKeyService(t), pgtest.Start(t), redistest.Start(t)
	all, _ := startReplicas(t, 4, fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: %q\ndata_dir: %q\nkeys: {postgres_url: %q}\nstore: {redis: {url: %q, timeout: 5s}}\n",
		service.URL, t.TempDir(), database.URL(), redis.URL()))
	k := all[0].createKey("a")
	for _, r := range all {
		eventually(t, patience, "the key is good", func() bool { return r.whose("/", k.Secret) == k.ID })
	}
	if status, err := all[1].change("DELETE", "/api/v1/keys/"+k.ID, "", nil); err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	var slowest time.Duration
	for _, r := range all {
		slowest += eventually(t, patience, "the key is revoked", func() bool { return r.whose("/", k.Secret) == "" })
	}
	t.Logf("a revoked key stopped at %d processes within %v", len(all), slowest)
	k = all[2].createKey("b")
	eventually(t, patience, "the key is good", func() bool { return all[3].whose("/", k.Secret) == k.ID })
	database.Kill()
	eventually(t, patience, "the database is missed", func() bool { return all[3].metric("weir_api_keys_database_errors_total") > 0 })
	if got := all[3].whose("/", k.Secret); got != k.ID {
		t.Errorf("without the database a key that is known is %q's, want %s", got, k.ID)
	}
	database.Run()
	eventually(t, patience, "keys are created again", func() bool {
		status, err := all[0].change("POST", "/api/v1/keys", `{"name": "c"}`, nil)
		return err == nil && status == 201
	})
}

// A process is killed while it creates keys: every key that was answered is good afterwards, and none is there
// half.
func TestKilledWhileCreatingKeys(t *testing.T) {
	service, data := startKeyService(t), t.TempDir()
	yaml := fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: %q\ndata_dir: %q\nkeys: {}\nlimits: []\ndefault: {limits: []}\n", service.URL, data)
	var answered []madeKey
	for range 3 {
		r := startReplica(t, yaml)
		made := make(chan madeKey, 100)
		var creating sync.WaitGroup
		for i := range 4 {
			creating.Go(func() {
				for n := range 10 {
					var k madeKey
					if status, err := r.change("POST", "/api/v1/keys", fmt.Sprintf(`{"name": "%d-%d"}`, i, n), &k); err != nil || status != 201 {
						return
					}
					made <- k
				}
			})
		}
		answered = append(answered, <-made, <-made)
		r.kill()
		creating.Wait()
		close(made)
		for k := range made {
			answered = append(answered, k)
		}
	}
	r := startReplica(t, yaml)
	for _, k := range answered {
		if got := r.whose("/", k.Secret); got != k.ID {
			t.Errorf("a key that was answered is %q's, want %s", got, k.ID)
		}
	}
	var page struct{ Keys []madeKey }
	if status, err := r.change("GET", "/api/v1/keys?limit=1000", "", &page); err != nil || status != 200 || len(page.Keys) < len(answered) {
		t.Errorf("%d keys of %d are listed (%d, %v)", len(page.Keys), len(answered), status, err)
	}
	for _, k := range page.Keys {
		if k.ID == "" || k.State != "live" {
			t.Errorf("half a key: %+v", k)
		}
	}
	if known := int(r.metric("weir_api_keys")); known != len(page.Keys) {
		t.Errorf("%d keys are known, %d listed", known, len(page.Keys))
	}
}

// KEY-15: a key in the query, or in the header, good or not, passed or blocked, is written down nowhere: in no log, no
// answer of the admin API, no metric, no key of a counter, no database, and not at the service.
func TestSecretsAreWrittenDownNowhere(t *testing.T) {
	service, database, redis, data := startKeyService(t), pgtest.Start(t), redistest.Start(t), t.TempDir()
	r := startReplica(t, fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: %q\ndata_dir: %q\nkeys: {postgres_url: %q, query: api_key, bearer: true}\n"+
		"store: {redis: {url: %q, timeout: 5s}}\nlog: {level: debug}\nmetrics: {top_clients: 20}\nlimits: [{name: hit, rate: 1/1h, per: [client, \"header:X-API-Key\"], mode: shadow}]\ndefault: {limits: [{rate: 4/1m, per: client}]}\n",
		service.URL, data, database.URL(), redis.URL()))
	good := r.createKey("a")
	bad := good.Secret[:40] + "Zz" + good.Secret[42:]
	var rotated madeKey
	if status, err := r.change("POST", "/api/v1/keys/"+good.ID+"/rotate", `{"overlap": 3600}`, &rotated); err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	for _, secret := range []string{good.Secret, rotated.Secret, bad} {
		for range 3 {
			r.whose("/a?x=1&api_key="+secret, "")
			r.whose("/a", secret)
			r.whose("/a?api_key="+secret+"&q=1'+or+1=1--", "")               // the firewall's
			r.whose("/a?api_key="+secret+"'%20or%201=1--", "")               // in the key itself
			r.whose("/a?api_key="+secret, "<script>alert(1)</script>")       // two keys
			_, _ = r.change("GET", "/api/v1/keys/"+secret, "", nil)          // by mistake
			_, _ = r.change("DELETE", "/api/v1/keys/none?reason=a", "", nil) // nobody's
		}
		question := fmt.Sprintf(`{"url": "http://api.example/a?api_key=%s", "headers": [{"name": "X-API-Key", "value": %q}]}`, secret, secret)
		if status, err := r.change("POST", "/api/v1/explain", question, nil); err != nil || status != 200 {
			t.Fatalf("explain: %d, %v", status, err)
		}
	}
	sinks := map[string]string{"the log": r.log()}
	for _, path := range []string{"/metrics", "/api/v1/decisions?limit=1000", "/api/v1/blocked", "/api/v1/top?by=path", "/api/v1/top?by=client", "/api/v1/audit", "/api/v1/config",
		"/api/v1/keys", "/api/v1/keys/" + good.ID, "/api/v1/rules", "/api/v1/shadow", "/api/v1/diagnosis", "/api/v1/status", "/api/v1/clients/127.0.0.1%2F32"} {
		sinks[path] = r.read(path)
	}
	for _, key := range redis.Do("KEYS", "*").([]any) {
		sinks["Redis"] += fmt.Sprintln(key)
	}
	sinks["PostgreSQL"] = dump(t, database)
	service.mu.Lock()
	sinks["the service"] = service.sent.String()
	service.mu.Unlock()
	files, _ := filepath.Glob(data + "/*")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sinks[filepath.Base(name)] = string(text)
	}
	for name, text := range sinks {
		for _, secret := range []string{good.Secret, rotated.Secret, bad} {
			if tail := secret[18:40]; strings.Contains(text, tail) {
				i := strings.Index(text, tail)
				t.Errorf("%s has a key: …%s…", name, text[max(0, i-200):min(len(text), i+40)])
				break
			}
		}
	}
	if !strings.Contains(sinks["PostgreSQL"], good.ID) || !strings.Contains(sinks["/api/v1/keys"], good.ID) || sinks["/api/v1/blocked"] == "" || !strings.Contains(sinks["the service"], good.ID) {
		t.Error("the sinks do not hold what they should: nothing was tested")
	}
}

// read is an answer of the admin API.
func (r *replica) read(path string) string {
	r.t.Helper()
	res, err := http.Get(r.admin + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		r.t.Fatalf("%s: %s, %v: %s", path, res.Status, err, text)
	}
	return string(text)
}

// dump is all that a database holds.
func dump(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	out, err := exec.Command("psql", s.URL(), "-Atc", "SELECT * FROM weir_keys", "-c", "SELECT * FROM weir_key_changes").CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return string(out)
}
