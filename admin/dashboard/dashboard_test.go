package dashboard

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func get(method, target string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		method, target string
		status         int
		kind           string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/dashboard/js/main.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/dashboard/css/base.css", 200, "text/css; charset=utf-8"},
		{"GET", "/dashboard/fonts/archivo.woff2", 200, "font/woff2"},
		{"GET", "/dashboard/icon.svg", 200, "image/svg+xml"},
		{"GET", "/dashboard/vendor/uPlot.LICENSE.txt", 200, "text/plain; charset=utf-8"},
		{"POST", "/", 405, "text/plain; charset=utf-8"},
		{"GET", "/dashboard/", 404, "text/plain; charset=utf-8"},
		{"GET", "/dashboard/js", 404, "text/plain; charset=utf-8"},
		{"GET", "/dashboard/../dashboard.go", 404, "text/plain; charset=utf-8"},
		{"GET", "/index.html", 404, "text/plain; charset=utf-8"},
	} {
		res := get(c.method, c.target, nil)
		if got := res.Header.Get("Content-Type"); res.StatusCode != c.status || got != c.kind {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.target, res.StatusCode, got, c.status, c.kind)
		}
	}
}

// Every file comes with what keeps a browser from doing more with it than the page needs.
func TestHeaderFields(t *testing.T) {
	for target := range load() {
		res := get("GET", target, nil)
		got := map[string]string{}
		for _, name := range []string{"X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Cache-Control"} {
			got[name] = res.Header.Get(name)
		}
		want := map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
		csp := res.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "nonce") || strings.Contains(csp, "http") {
			t.Errorf("%s: policy %q", target, csp)
		}
	}
}

// A browser that has a file asks whether it is still the same, and is told so without the file.
func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	first := get("GET", "/dashboard/js/main.js", nil)
	tag := first.Header.Get("ETag")
	if again := get("GET", "/dashboard/js/main.js", http.Header{"If-None-Match": {tag}}); tag == "" || again.StatusCode != http.StatusNotModified {
		t.Errorf("tag %q: %d, want 304", tag, again.StatusCode)
	}
	if other := get("GET", "/dashboard/js/dom.js", http.Header{"If-None-Match": {tag}}); other.StatusCode != http.StatusOK {
		t.Errorf("another file under the same tag: %d, want 200", other.StatusCode)
	}
}

var (
	inline    = regexp.MustCompile(`(?i)\son[a-z]+\s*=|\sstyle\s*=|<style|<script(?:\s[^>]*)?>[^<]|javascript:`)
	elsewhere = regexp.MustCompile(`(?:https?:)?//[a-z0-9]`)
	named     = regexp.MustCompile(`(?:src|href)="(/[^"]*)"|from "(\.[^"]+)"|url\("([^"]+)"\)`)
	sinks     = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|createContextualFragment|setHTML`)
)

// The page has no code or style of its own in its markup, and nothing in it makes markup of text.
func TestNothingInline(t *testing.T) {
	page, err := files.ReadFile("web/index.html")
	if err != nil {
		t.Fatal(err)
	}
	if m := inline.FindString(string(page)); m != "" {
		t.Errorf("index.html has %q", m)
	}
	for name, text := range ours(t) {
		if m := sinks.FindString(text); m != "" {
			t.Errorf("%s uses %s", name, m)
		}
	}
}

// What the files name is among them, and no file names another host. An SVG's namespace is a name, no address.
func TestFilesNameEachOther(t *testing.T) {
	known := load()
	for name, text := range ours(t) {
		for _, line := range strings.Split(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), "\n") {
			code, _, _ := strings.Cut(line, "// ")
			if m := elsewhere.FindString(code); m != "" && !strings.Contains(code, "http://localhost") {
				t.Errorf("%s names another host: %s", name, line)
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if target == "" {
				target = path.Join(Prefix, path.Dir(name), m[2]+m[3])
			}
			if _, ok := known[target]; !ok {
				t.Errorf("%s names %s, which is not there", name, target)
			}
		}
	}
}

// What others wrote comes with their licence.
func TestLicences(t *testing.T) {
	for _, name := range []string{"vendor/uPlot.LICENSE.txt", "fonts/archivo.LICENSE.txt", "fonts/plexmono.LICENSE.txt"} {
		if text, err := files.ReadFile("web/" + name); err != nil || !strings.Contains(string(text), "Copyright") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ours are the texts of the files that are not somebody else's, by their names below web.
func ours(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := fs.WalkDir(files, "web", func(name string, d fs.DirEntry, err error) error {
		short := strings.TrimPrefix(name, "web/")
		if err != nil || d.IsDir() || strings.HasPrefix(short, "vendor/") || strings.HasPrefix(short, "fonts/") {
			return err
		}
		text, err := files.ReadFile(name)
		texts[short] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
