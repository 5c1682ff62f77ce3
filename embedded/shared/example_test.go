package shared_test

import (
	"log"
	"net/http"

	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/embedded/shared"
	"github.com/weirgate/weir/middleware"
)

// The file names store.redis. Every program that reads it, and every weir that runs by it, has one count.
func ExampleRedis() {
	engine, err := embedded.Open("weir.yaml", embedded.Options{Shared: shared.Redis})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	limiter := middleware.New(engine.Engine, middleware.Options{})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", limiter.Wrap(http.NotFoundHandler())))
}
