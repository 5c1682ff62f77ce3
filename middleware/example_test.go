package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/middleware"
)

// The configuration may be Go values in place of a file: the defaults, with changes.
func ExampleOpenConfig() {
	cfg := config.Default()
	cfg.Client.Path = []config.Hop{{Name: "nginx"}}
	cfg.Rules = []config.Rule{{Name: "search", Path: "/search", Limits: []config.Limit{{Rate: &config.Rate{N: 2, Window: time.Minute}}}}}
	limiter, stop, err := middleware.OpenConfig(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	handler := limiter.Wrap(http.NotFoundHandler())

	for range 3 {
		r := httptest.NewRequest("GET", "/search", nil)
		r.RemoteAddr = "127.0.0.1:80"
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 404 "search";q=2;w=60
	// 404 "search";q=2;w=60
	// 429 "search";q=2;w=60
}
