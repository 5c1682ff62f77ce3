package weir_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirgate/weir"

// A room is a package's place in the house: it imports only rooms of lower layers, and of other
// people's modules only those that are named here.
type room struct {
	layer   int
	modules []string
}

var house = map[string]room{
	".":                 {layer: 0},
	"internal/yamlkind": {layer: 0, modules: []string{"go.yaml.in/yaml/v3"}},

	"limit":               {layer: 1},
	"clientip":            {layer: 1},
	"config":              {layer: 1, modules: []string{"go.yaml.in/yaml/v3"}},
	"respond":             {layer: 1, modules: []string{"google.golang.org/protobuf"}},
	"internal/chain":      {layer: 1},
	"internal/tarpit":     {layer: 1},
	"internal/plain":      {layer: 0},
	"internal/noise":      {layer: 1},
	"internal/tail":       {layer: 1},
	"internal/kept":       {layer: 1},
	"internal/bounded":    {layer: 1},
	"internal/farewell":   {layer: 1},
	"internal/topk":       {layer: 1},
	"internal/redistest":  {layer: 1},
	"internal/leaktest":   {layer: 1, modules: []string{"go.uber.org/goleak"}},
	"internal/pgtest":     {layer: 1},
	"internal/credential": {layer: 1},
	"internal/proctest":   {layer: 0},
	"internal/racing":     {layer: 0},
	"internal/timed":      {layer: 1},
	"front/proxy/guard":   {layer: 1},
	"front/spoe/spop":     {layer: 1},
	"replay/accesslog":    {layer: 1, modules: []string{"github.com/klauspost/compress"}},
	"admin/dashboard":     {layer: 1},
	"stickexport":         {layer: 1, modules: []string{"github.com/prometheus/client_golang"}},
	"internal/tokentest":  {layer: 1, modules: []string{"github.com/go-jose/go-jose/v4"}},

	"waf/feed": {layer: 1},
	"waf/mask": {layer: 1},

	"store/memory":    {layer: 2},
	"store/redis":     {layer: 2, modules: []string{"github.com/redis/go-redis/v9"}},
	"store/failover":  {layer: 2},
	"token":           {layer: 2, modules: []string{"github.com/go-jose/go-jose/v4"}},
	"localdb":         {layer: 2, modules: []string{"modernc.org/sqlite"}},
	"store/storetest": {layer: 2, modules: []string{"github.com/google/go-cmp"}},
	"ban":             {layer: 2, modules: []string{"github.com/gaissmai/bart"}},
	"policy":          {layer: 2},
	"apikey":          {layer: 2},
	"apikey/postgres": {layer: 3, modules: []string{"github.com/jackc/pgx/v5"}},
	"journal":         {layer: 2, modules: []string{"github.com/prometheus/client_golang"}},
	"internal/mark":   {layer: 2},

	"front/envoyrls/descriptors": {layer: 2, modules: []string{"go.yaml.in/yaml/v3"}},

	"waf":         {layer: 2},
	"waf/waftest": {layer: 3},
	"waf/fast":    {layer: 3, modules: []string{"github.com/corazawaf/libinjection-go"}},
	"waf/crs":     {layer: 3, modules: []string{"github.com/corazawaf/coraza/v3", "github.com/corazawaf/coraza-coreruleset/v4", "github.com/corazawaf/libinjection-go", "github.com/wasilibs/go-re2"}},

	"engine":                            {layer: 3},
	"front/envoyrls/descriptors/follow": {layer: 3, modules: []string{"github.com/fsnotify/fsnotify"}},
	"front/envoyrls/environment":        {layer: 3},
	"front/envoyrls/xds":                {layer: 3, modules: append(envoyAPI(), "github.com/envoyproxy/go-control-plane/ratelimit", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf")},

	"embedded":       {layer: 4},
	"replay":         {layer: 4},
	"admin":          {layer: 4},
	"tracing":        {layer: 4, modules: []string{"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"}},
	"front/envoyrls": {layer: 4, modules: append(envoyAPI(), "google.golang.org/protobuf", "github.com/prometheus/client_golang")},

	"embedded/shared":     {layer: 5},
	"internal/enginetest": {layer: 5},
	"internal/verify":     {layer: 5},

	"middleware":        {layer: 5},
	"grpcmw":            {layer: 5, modules: []string{"google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf"}},
	"front/extauthz":    {layer: 5, modules: append(envoyAPI(), "google.golang.org/genproto/googleapis/rpc")},
	"front/forwardauth": {layer: 5},
	"front/spoe":        {layer: 5},
	"front/proxy":       {layer: 6, modules: []string{"github.com/pires/go-proxyproto"}},
	"app":               {layer: 7, modules: []string{"github.com/fsnotify/fsnotify"}},

	"internal/demo":   {layer: 8},
	"cmd/weir":        {layer: 9, modules: []string{"github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "golang.org/x/term"}},
	"internal/docgen": {layer: 8},
}

// envoyAPI are the modules of a service that Envoy asks.
func envoyAPI() []string {
	return []string{"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc"}
}

type listed struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
	GoFiles    []string
}

func TestImportsPointDown(t *testing.T) {
	deps := goList(t, "-deps", "./...")
	seen := map[string]bool{}
	used := map[string]bool{} // package, space, module
	for _, p := range deps {
		if p.Module == nil || p.Module.Path != module || len(p.GoFiles) == 0 {
			continue
		}
		name := roomName(p.ImportPath)
		seen[name] = true
		r, ok := house[name]
		if !ok {
			t.Errorf("package %s is not in the list: give it a layer", name)
			continue
		}
		for _, path := range p.Imports {
			checkImport(t, name, r, deps[path])
			if m := deps[path].Module; m != nil {
				used[name+" "+m.Path] = true
			}
		}
	}
	for name, r := range house {
		if !seen[name] {
			t.Errorf("package %s is in the list, but gone", name)
		}
		for _, m := range r.modules {
			if !used[name+" "+m] {
				t.Errorf("%s may import %s, but does not", name, m)
			}
		}
	}
}

func checkImport(t *testing.T, name string, r room, imported listed) {
	t.Helper()
	switch {
	case imported.Standard || imported.Module == nil:
	case imported.Module.Path == module:
		if below := roomName(imported.ImportPath); house[below].layer >= r.layer {
			t.Errorf("%s (layer %d) imports %s (layer %d)", name, r.layer, below, house[below].layer)
		}
	case !slices.Contains(r.modules, imported.Module.Path):
		t.Errorf("%s imports %s, which is not among its modules %v", name, imported.Module.Path, r.modules)
	}
}

func roomName(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// goList returns the packages that go list names, by import path.
func goList(t *testing.T, args ...string) map[string]listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Module,Imports,GoFiles"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}
