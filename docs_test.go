package weir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/policy"
)

// A page is a document. Its fences say in their first line what the tests do with them:
//
//	```yaml            a configuration, or a piece of one, that is valid
//	```yaml NAME       the same, and a file of that name for the commands that follow
//	```yaml bad        a configuration that must be refused
//	```yaml other      not a configuration of Weir
//	```go [NAME]       a program that builds
//	```sh run          commands, one a line, that succeed; a line that ends in & goes on in the background, and the next waits for it
//	```sh ctrl-c       the same, of which the last goes on until it is interrupted
//	```sh              commands that are only shown, for a reason that is listed
//	```nginx NAME      a file of that name for the commands that follow
//	```text output     lines that the commands before write, in this order; … stands for anything
type page struct {
	name   string
	text   string
	fences []fence
}

type fence struct {
	line      int
	lang, tag string
	text      string
}

// onlyShown returns why a block of commands is not run, by its first line. Others are all run.
func onlyShown() map[string]string {
	return map[string]string{
		"make test": "it runs this test",
		"make soak            # half an hour; SOAK=5m make soak for less":                                                       "half an hour; make test has its short form",
		"ssh -L 9090:127.0.0.1:9090 server.example.com":                                                                         "wants a server elsewhere; what comes through is judged by the dashboard's tests",
		"docker build -t weir .":                                                                                                "wants Docker; deploy/deploytest builds and runs by the Dockerfile's own lines",
		"mkdir -m 700 secrets && openssl rand -hex 32 > secrets/admin_token && chmod 644 secrets/admin_token":                   "wants Docker; deploy/deploytest and deploy/manifests judge the compose file",
		"install -m 755 weir /usr/local/bin/ && install -d /etc/weir && install -m 644 weir.yaml /etc/weir/":                    "wants root and systemd; deploy/deploytest judges the unit",
		"kubectl create secret generic weir --from-literal=admin-token=$(openssl rand -hex 32) --from-literal=redis-password=…": "wants a cluster; deploy/manifests judges the chart",
	}
}

// readPage returns the document at name, or nil if it is not there.
func readPage(t *testing.T, name string) *page {
	t.Helper()
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &page{name: name, text: string(data)}
	var open *fence
	for i, line := range strings.Split(p.text, "\n") {
		switch info, isFence := strings.CutPrefix(line, "```"); {
		case isFence && open == nil:
			lang, tag, _ := strings.Cut(info, " ")
			open = &fence{line: i + 1, lang: lang, tag: tag}
		case isFence:
			p.fences = append(p.fences, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the fence does not end", name, open.line)
	}
	return p
}

// userPages are the pages that users read.
func userPages(t *testing.T) []*page {
	t.Helper()
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := []*page{readPage(t, "README.md")}
	for _, name := range names {
		pages = append(pages, readPage(t, filepath.ToSlash(name)))
	}
	return pages
}

// allPages are the pages of users and those of who works on Weir.
func allPages(t *testing.T) []*page {
	pages := userPages(t)
	for _, name := range []string{"ARCHITECTURE.md", "RATIONALE.md"} {
		if p := readPage(t, name); p != nil {
			pages = append(pages, p)
		}
	}
	return pages
}

func TestDocumentsAreShort(t *testing.T) {
	for _, name := range []string{"README.md", "ARCHITECTURE.md"} {
		if p := readPage(t, name); p != nil && strings.Count(p.text, "\n") > 150 {
			t.Errorf("%s has %d lines, want at most 150", name, strings.Count(p.text, "\n"))
		}
	}
}

// Every block of commands is run, unless there is a reason.
func TestCommandsAreRun(t *testing.T) {
	reasons := onlyShown()
	for _, p := range userPages(t) {
		for _, f := range p.fences {
			first, _, _ := strings.Cut(f.text, "\n")
			switch _, listed := reasons[first]; {
			case f.lang != "sh" || f.tag == "run" || f.tag == "ctrl-c":
			case f.tag == "" && listed:
				delete(reasons, first)
			default:
				t.Errorf("%s:%d: the commands are not run, and no reason is listed", p.name, f.line)
			}
		}
	}
	for first := range reasons {
		t.Errorf("a reason is listed for %q, which is in no page", first)
	}
}

func TestDocumentedConfigurations(t *testing.T) {
	for _, p := range userPages(t) {
		for _, f := range p.fences {
			if f.lang != "yaml" || f.tag == "other" {
				continue
			}
			problems := judgeConfig(fmt.Sprintf("%s:%d", p.name, f.line), f.text)
			if bad := config.HasErrors(problems); bad != (f.tag == "bad") {
				t.Errorf("%s:%d: refused: %v; problems: %v", p.name, f.line, bad, problems)
			}
		}
	}
}

func judgeConfig(name, text string) []config.Problem {
	c, problems := config.Parse(name, []byte(text), nil)
	if config.HasErrors(problems) {
		return problems
	}
	_, more := policy.Compile(c)
	return append(problems, more...)
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestDocumentLinks(t *testing.T) {
	for _, p := range allPages(t) {
		for _, m := range link.FindAllStringSubmatch(p.prose(), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := p.name
			if file != "" {
				target = path.Join(path.Dir(p.name), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", p.name, m[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readPage(t, target)), anchor) {
				t.Errorf("%s: link to %s: no such heading", p.name, m[1])
			}
		}
	}
}

// prose is the page without what stands in fences.
func (p *page) prose() string {
	text := p.text
	for _, f := range p.fences {
		text = strings.Replace(text, f.text, "", 1)
	}
	return text
}

// anchors are what the page's headings can be linked by, as GitHub makes them.
func anchors(p *page) []string {
	var list []string
	for _, line := range strings.Split(p.prose(), "\n") {
		title := strings.TrimLeft(line, "#")
		if title == line {
			continue
		}
		list = append(list, strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
				return unicode.ToLower(c)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return list
}

func TestDocumentedPrograms(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace, packages := map[string]string{}, []string{}
	for _, p := range userPages(t) {
		for _, f := range p.fences {
			if f.lang != "go" {
				continue
			}
			name := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(name, []byte(f.text), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := fmt.Sprintf("documented%d", len(packages))
			replace[filepath.Join(root, dir, "main.go")] = name
			packages = append(packages, "./"+dir)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append([]string{"build", "-overlay", file, "-o", t.TempDir() + "/"}, packages...)...)
	build.Env = append(os.Environ(), proctest.AsShipped...)
	out, err := build.CombinedOutput()
	if err != nil {
		t.Errorf("go build of the documents' programs: %v\n%s", err, out)
	}
}

var quoted = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?[^`]*`")

// TestDocumentedNames holds what documents quote of the program to the program.
func TestDocumentedNames(t *testing.T) {
	exported := map[string][]string{} // by the last element of the import path
	for importPath, p := range goList(t, "./...") {
		if len(p.GoFiles) > 0 {
			base := path.Base(importPath)
			exported[base] = append(exported[base], exportedNames(t, roomName(importPath))...)
		}
	}
	for _, p := range allPages(t) {
		for _, m := range quoted.FindAllStringSubmatch(p.prose(), -1) {
			names, ours := exported[path.Base(m[1])]
			if ours && !slices.Contains(names, m[2]) || ours && m[3] != "" && !slices.Contains(names, m[3]) {
				t.Errorf("%s quotes %s, which does not exist", p.name, m[0])
			}
		}
	}
}

// exportedNames are the exported names of the package in dir, methods and fields among them.
func exportedNames(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			declared(d, names)
		}
	}
	return slices.Collect(maps.Keys(names))
}

func declared(d ast.Decl, names map[string]bool) {
	if f, ok := d.(*ast.FuncDecl); ok {
		names[f.Name.Name] = f.Name.IsExported()
		return
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			names[n.Name.Name] = true
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		}
		return true
	})
}

func TestArchitectureNamesEveryPackage(t *testing.T) {
	p := readPage(t, "ARCHITECTURE.md")
	if p == nil {
		t.Skip("there is no ARCHITECTURE.md")
	}
	for importPath, listed := range goList(t, "./...") {
		name := roomName(importPath)
		if name == "." {
			name = "weir"
		}
		if len(listed.GoFiles) > 0 && !strings.Contains(p.text, "`"+name+"`") && !strings.Contains(p.text, "`"+name+"/`") {
			t.Errorf("ARCHITECTURE.md does not name `%s`", name)
		}
	}
}

var metric = regexp.MustCompile("`weir_([a-z_]+)")

// metricFiles are where metrics get their names.
func metricFiles() []string {
	return []string{"journal/metrics.go", "journal/firewall.go", "journal/quota.go"}
}

func TestDocumentedMetrics(t *testing.T) {
	var source []byte
	for _, name := range metricFiles() {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, file...)
	}
	for _, p := range userPages(t) {
		for _, m := range metric.FindAllStringSubmatch(p.prose(), -1) {
			name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
			if !bytes.Contains(source, []byte(`"`+name+`"`)) && !bytes.Contains(source, []byte(`"weir_`+name+`"`)) {
				t.Errorf("%s names the metric weir_%s, which does not exist", p.name, m[1])
			}
		}
	}
}

// TestEveryMetricIsListed: each metric stands in the table of metrics.
func TestEveryMetricIsListed(t *testing.T) {
	p, exported := readPage(t, "docs/operating.md"), regexp.MustCompile(`(?:(?:counter|gauge|seconds)\("|"weir_)([a-z_]+)"`)
	for _, name := range metricFiles() {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := exported.FindAllSubmatch(source, -1)
		if len(found) == 0 {
			t.Errorf("%s has no metric", name)
		}
		for _, m := range found {
			if !regexp.MustCompile("(?m)^\\|.*`weir_" + string(m[1]) + "[`{]").MatchString(p.text) {
				t.Errorf("docs/operating.md does not list weir_%s", m[1])
			}
		}
	}
}

// TestEveryCommandIsListed: each command stands in the table of commands.
func TestEveryCommandIsListed(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t, "docs/operating.md").text, "\n## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, name := range commandLine(t) {
		if !regexp.MustCompile(`(?m)^\| .*\b` + name + `\b.* \|`).MatchString(table) {
			t.Errorf("docs/operating.md does not list the command %s", name)
		}
	}
}

func TestEveryDiagnosisIsDocumented(t *testing.T) {
	p := readPage(t, "docs/clients.md")
	for _, code := range weir.AllCodes.Names() {
		if !strings.Contains(p.text, "\n| `"+code+"` |") {
			t.Errorf("docs/clients.md has no line for the diagnosis %s", code)
		}
	}
}

var (
	runbook = regexp.MustCompile(`runbook_url: https://github\.com/weirgate/weir/blob/main/(\S+)`)
	alert   = regexp.MustCompile(`- alert: (\w+)`)
)

// TestAlertsAreDocumented: each alert leads to a section that exists, and stands in the table of alerts.
func TestAlertsAreDocumented(t *testing.T) {
	rules, err := os.ReadFile("deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	links := runbook.FindAllStringSubmatch(string(rules), -1)
	for _, m := range links {
		file, anchor, _ := strings.Cut(m[1], "#")
		if p := readPage(t, file); p == nil || !slices.Contains(anchors(p), anchor) {
			t.Errorf("deploy/prometheus/alerts.yml leads to %s, which is not there", m[1])
		}
	}
	page, alerts := readPage(t, "docs/deploying.md"), alert.FindAllStringSubmatch(string(rules), -1)
	if len(alerts) != len(links) {
		t.Errorf("%d alerts lead to %d sections", len(alerts), len(links))
	}
	for _, m := range alerts {
		if !strings.Contains(page.text, "\n| `"+m[1]+"` |") {
			t.Errorf("docs/deploying.md has no line for the alert %s", m[1])
		}
	}
}
