package forwardauth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What an ask costs beyond net/http, by dialect: nginx's has a counter of its own.
func BenchmarkAsk(b *testing.B) {
	for _, path := range paths {
		b.Run(path[len("/auth/"):], func(b *testing.B) {
			h := build(b, "default: {limits: [{rate: 1000000000/1h}]}\n"+behind)
			header := asks[path]("/api/search?q=1")
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr = "127.0.0.1:4242"
			w := &blank{http.Header{}}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				r.Header = header.Clone()
				if path == "/auth/nginx" {
					r.Header["X-Weir-Request-Id"][0] = fmt.Sprintf("%032x", n)
				}
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// A blank writer keeps a header and nothing else.
type blank struct{ header http.Header }

func (w *blank) Header() http.Header         { return w.header }
func (w *blank) WriteHeader(int)             {}
func (w *blank) Write(b []byte) (int, error) { return len(b), nil }
