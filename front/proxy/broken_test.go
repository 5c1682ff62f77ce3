package proxy

import (
	"bufio"
	"io"
	"net/http"
	"testing"
)

// A body that ends too early is its sender's fault, and never told as the upstream's.
func TestShortBodyIsTheClientsFault(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler) // no answer to half a request
		}
	})})
	c := h.dial()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhello world")
	c.(interface{ CloseWrite() error }).CloseWrite()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a body of 11 bytes that said 50: %s", answer.Status)
	}
}
