package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/journal"
)

// An adminServer answers for metrics and health.
type adminServer struct {
	listener net.Listener
	server   http.Server
	ready    func() error // why nobody should send requests here, or nil
}

func openAdmin(c *config.Config, j *journal.Journal, ready func() error) (*adminServer, error) {
	l, err := proxy.Listen(c.Admin)
	if err != nil {
		return nil, listenError("admin", c.Admin, err)
	}
	s := &adminServer{listener: l, ready: ready}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", bearer(j.Handler(), c.AdminToken, c.AdminReadToken))
	s.server = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	return s, nil
}

func index(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "This is Weir's admin address: /metrics /livez /readyz")
}

// readyz says whether a load balancer should send requests here.
func (s *adminServer) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *adminServer) serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// close ends the server, and what it is answering.
func (s *adminServer) close() {
	s.server.Close()
	s.listener.Close()
}

// bearer lets only those through who bear one of the tokens, in constant time. Without any token,
// which the configuration allows on loopback only, everybody may.
func bearer(next http.Handler, tokens ...string) http.Handler {
	var sums [][sha256.Size]byte
	for _, token := range tokens {
		if token != "" {
			sums = append(sums, sha256.Sum256([]byte(token)))
		}
	}
	if len(sums) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got, known := sha256.Sum256([]byte(token)), 0
		for _, sum := range sums {
			known |= subtle.ConstantTimeCompare(got[:], sum[:])
		}
		if known == 0 || !strings.EqualFold(scheme, "Bearer") {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required: admin_token or admin_read_token of the configuration", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
