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

// asks reports whether r asks Weir itself at path.
func asks(r *weir.Request, path string) bool {
	return r.Path == path && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// tellWho answers with the part of the decision object that says who asks.
func tellWho(w http.ResponseWriter, _ *http.Request, c *Call) {
	answer := struct {
		Client respond.Client `json:"client"`
		Front  string         `json:"front"`
	}{respond.View(c.Decision).Client, c.Decision.Request.Front}
	tell(w, answer)
}

// tell answers an asker about himself.
func tell(w http.ResponseWriter, answer any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(answer) // an asker that has gone needs no answer
}
