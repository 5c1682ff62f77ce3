package embedded_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/grpcmw"
	"github.com/weirgate/weir/middleware"
)

// A program that serves HTTP and gRPC has one engine, so that a client has one limit in both. Two calls of Open
// would be two engines, and twice the limit.
func ExampleNew() {
	cfg := config.Default()
	cfg.Limits = []config.Limit{{Name: "site", Rate: &config.Rate{N: 2, Window: time.Hour}, Per: config.List{"global"}}}
	engine, err := embedded.New(cfg, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	web := middleware.New(engine.Engine, middleware.Options{}).Wrap(http.NotFoundHandler())
	calls := grpcmw.New(engine.Engine)

	for range 2 {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println("HTTP", w.Code)
		_, err := calls.UnaryServerInterceptor(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/svc/Method"},
			func(context.Context, any) (any, error) { return nil, nil })
		fmt.Println("gRPC", status.Code(err))
	}
	// Output:
	// HTTP 404
	// gRPC OK
	// HTTP 429
	// gRPC ResourceExhausted
}
