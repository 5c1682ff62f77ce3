package behind_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// forgedNetwork begins every address that is forged, and none that is true.
const forgedNetwork = "198.51.100."

// forgeries are what a client may send to be somebody else, another at each try.
var forgeries = map[string]func(try int) http.Header{
	"X-Forwarded-For":    func(i int) http.Header { return http.Header{"X-Forwarded-For": {forged(i)}} },
	"chain from outside": func(i int) http.Header { return http.Header{"X-Forwarded-For": {forged(i) + ", 127.0.0.1"}} },
	"chain of proxies":   func(i int) http.Header { return http.Header{"X-Forwarded-For": {forged(i) + ",127.0.0.1, 127.0.0.1"}} },
	"several lines": func(i int) http.Header {
		return http.Header{"X-Forwarded-For": {forged(i), "127.0.0.1", forged(i + 9)}}
	},
	"30 entries":       func(i int) http.Header { return http.Header{"X-Forwarded-For": {manyForged(i, 30)}} },
	"no addresses":     func(i int) http.Header { return http.Header{"X-Forwarded-For": {forged(i) + ", unknown, _hidden, ,"}} },
	"empty":            func(int) http.Header { return http.Header{"X-Forwarded-For": {""}} },
	"X-Real-IP":        func(i int) http.Header { return http.Header{"X-Real-IP": {forged(i)}} },
	"Forwarded":        func(i int) http.Header { return http.Header{"Forwarded": {"for=" + forged(i)}} },
	"CF-Connecting-IP": func(i int) http.Header { return http.Header{"CF-Connecting-IP": {forged(i)}} },
	"True-Client-IP":   func(i int) http.Header { return http.Header{"True-Client-IP": {forged(i)}} },
	"X-Client-IP":      func(i int) http.Header { return http.Header{"X-Client-IP": {forged(i)}} },
	"X_Forwarded_For":  func(i int) http.Header { return http.Header{"X_Forwarded_For": {forged(i)}, "X_Real_IP": {forged(i)}} },
	"X.Forwarded.For":  func(i int) http.Header { return http.Header{"X.Forwarded.For": {forged(i)}, "x-real.ip": {forged(i)}} },
	"CF_Connecting_IP": func(i int) http.Header { return http.Header{"CF_Connecting_IP": {forged(i)}} },
	"Connection":       func(int) http.Header { return http.Header{"Connection": {"X-Forwarded-For, X-Real-IP, Forwarded"}} },
	"Connection and chain": func(i int) http.Header {
		return http.Header{"Connection": {"x-forwarded-for"}, "X-Forwarded-For": {forged(i)}}
	},
	"Connection and close": func(i int) http.Header {
		return http.Header{"Connection": {"close, X-Forwarded-For"}, "X-Forwarded-For": {forged(i)}}
	},
	"Connection and Upgrade": func(i int) http.Header {
		return http.Header{"Connection": {"upgrade, X-Forwarded-For"}, "Upgrade": {"something"}, "X-Forwarded-For": {forged(i)}}
	},
	"X-Forwarded-Proto and -Host": func(i int) http.Header {
		return http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {forged(i)}, "X_Forwarded_Host": {forged(i)}}
	},
	"words of Weir's": func(i int) http.Header {
		return http.Header{"X-Weir-Client": {forged(i)}, "X_Weir_Client": {forged(i)}}
	},
	"everything at once": everythingForged,
	"everything and Connection": func(i int) http.Header {
		h := everythingForged(i)
		h["Connection"] = []string{"X-Forwarded-For"}
		return h
	},
}

func forged(i int) string { return fmt.Sprint(forgedNetwork, i%250+1) }

func manyForged(first, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = forged(first + i)
	}
	return strings.Join(list, ", ")
}

func everythingForged(i int) http.Header {
	h := http.Header{}
	for name := range identities {
		h[http.CanonicalHeaderKey(name)] = []string{forged(i)}
		h[strings.ReplaceAll(name, "-", "_")] = []string{forged(i)}
	}
	h["Forwarded"] = []string{"for=" + forged(i)}
	return h
}

// Nothing that a client can send changes who he is: his honest request and all the others are counted
// together, and the upstream hears his true address alone.
func (r *road) forgedChangesNothing(t *testing.T) {
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			c := r.client()
			if a := c.get(t, "/", nil); a.status != http.StatusOK {
				t.Fatalf("the honest request: HTTP status %d: %s", a.status, a.body)
			}
			for i := range 2 {
				a := c.get(t, "/", forgery(i))
				if a.status != http.StatusOK {
					t.Fatalf("forgery %d: HTTP status %d: %s", i, a.status, a.body)
				}
				a.wantOnly(t, c.addr)
			}
			if a := c.get(t, "/", forgery(3)); a.status != http.StatusTooManyRequests {
				t.Errorf("the fourth request: HTTP status %d, want 429", a.status)
			}
		})
	}
}
