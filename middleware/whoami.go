package middleware

import (
	"encoding/json"
	"net/http"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/respond"
)

// WhoamiPath is where an asker is told what was resolved for his very request, if the configuration lets
// him. The request is decided, counted and recorded like any other; no service sees it.
const WhoamiPath = "/.well-known/weir/whoami"

func asksWho(r *weir.Request) bool {
	return r.Path == WhoamiPath && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// tellWho answers with the part of the decision object that says who asks.
func tellWho(w http.ResponseWriter, _ *http.Request, c *Call) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	answer := struct {
		Client respond.Client `json:"client"`
		Front  string         `json:"front"`
	}{respond.View(c.Decision).Client, c.Decision.Request.Front}
	_ = json.NewEncoder(w).Encode(answer) // an asker that has gone needs no answer
}
