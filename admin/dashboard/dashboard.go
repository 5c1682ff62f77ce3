// Package dashboard is the page that shows an operator what Weir does. Its files are part of the program;
// it asks nobody but the admin API it is served beside.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed web
var files embed.FS

// Prefix is the path below which [Handler] serves everything but the page itself, which is at /.
const Prefix = "/dashboard/"

// policy lets the page run its own files and ask its own origin, and nothing else. Trusted Types take away
// the ways by which text could become markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// An asset is one file as it is sent.
type asset struct {
	kind, tag string
	body      []byte
}

// Handler returns the handler of / and of what is below [Prefix]. It answers GET and HEAD, needs no token,
// since the files say nothing about anybody, and knows nothing but its files.
func Handler() http.Handler {
	assets := load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the dashboard is only read", http.StatusMethodNotAllowed)
		default:
			a.send(w, r)
		}
	})
}

// load reads the embedded files. They are in the program, so that not to read one is a fault of ours.
func load() map[string]asset {
	assets := map[string]asset{}
	err := fs.WalkDir(files, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		a := asset{kind: kindOf(name), tag: fmt.Sprintf("%q", base64.RawURLEncoding.EncodeToString(sum[:12])), body: body}
		if name == "web/index.html" {
			assets["/"] = a
			return nil
		}
		assets[Prefix+strings.TrimPrefix(name, "web/")] = a
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("dashboard: embedded files: %v", err))
	}
	return assets
}

// kindOf returns the media type of a file by its name, whatever the machine's own tables say.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	default:
		return "text/plain; charset=utf-8"
	}
}

// send answers with the file. A browser keeps it and asks whether it is still the same, so that a new
// version of the program is seen at once.
func (a asset) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}
