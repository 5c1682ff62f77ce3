// Command plain is what Weir's proxy is compared with: net/http and httputil.ReverseProxy with a tuned
// transport, an empty handler, a refusal that is the same for all, and a backend. It imports the
// standard library only.
//
//	plain -listen ADDR -serve proxy -backend URL
//	plain -listen ADDR -serve empty
//	plain -listen ADDR -serve refusal
//	plain -listen ADDR -serve backend
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	serve := flag.String("serve", "proxy", "proxy, empty, refusal or backend")
	backend := flag.String("backend", "", "URL that the proxy forwards to")
	flag.Parse()
	h, err := handler(*serve, *backend)
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Addr: *listen, Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	log.Fatal(server.ListenAndServe())
}

func handler(serve, backend string) (http.Handler, error) {
	switch serve {
	case "proxy":
		target, err := url.Parse(backend)
		return proxy(target), err
	case "empty":
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil
	case "refusal":
		return http.HandlerFunc(refuse), nil
	case "backend":
		body := bytes.Repeat([]byte("x"), 100)
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }), nil
	}
	return nil, fmt.Errorf("plain: -serve %s: want proxy, empty, refusal or backend", serve)
}

const problem = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned ` +
	`quota has been exceeded","status":429,"detail":"The limit default (10/30d) is used up. Retry after 481114 s.",` +
	`"violated-policies":["default"],"limit":10,"rule":"default","retry_after":481114}` + "\n"

// refuse answers with what Weir's refusal looks like, without any counting: what such an answer costs
// net/http whoever decides it.
func refuse(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Access-Control-Expose-Headers"] = []string{"Retry-After, RateLimit, RateLimit-Policy"}
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Type"] = []string{"application/problem+json"}
	h["Ratelimit"] = []string{`"default";r=0;t=481114`}
	h["Ratelimit-Policy"] = []string{`"default";q=10;w=2592000`}
	h["Retry-After"] = []string{"481114"}
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write([]byte(problem))
}

// proxy is ReverseProxy as one tunes it: connections are kept, buffers are reused, nothing is
// decompressed or logged.
func proxy(target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
		BufferPool: &pool{sync.Pool{New: func() any { return new([size]byte) }}},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
	}
}

const size = 32 << 10

type pool struct{ buffers sync.Pool }

func (p *pool) Get() []byte  { return p.buffers.Get().(*[size]byte)[:] }
func (p *pool) Put(b []byte) { p.buffers.Put((*[size]byte)(b)) }
