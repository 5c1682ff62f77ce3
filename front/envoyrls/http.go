package envoyrls

import (
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// mostJSON is how many bytes a question in JSON may have: what a message of gRPC may.
const mostJSON = 4 << 20

// HTTP serves /json, the service for who has no gRPC at hand, and /healthcheck.
func (s *Server) HTTP() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("GET /healthcheck", s.serveHealth)
	return mux
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if !s.healthy() {
		http.Error(w, "not healthy", http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK") // an asker that is gone needs no answer
}

// serveJSON answers 200 to let pass, 429 to refuse, 400 to what cannot be answered, and 503 if the store could not
// count.
func (s *Server) serveJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostJSON))
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	req := new(pb.RateLimitRequest)
	if err := protojson.Unmarshal(body, req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.ShouldRateLimit(r.Context(), req)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(status.Code(err)))
		return
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // an asker that is gone needs no answer
}
