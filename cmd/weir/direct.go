package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// handlerTransport answers by a handler of this process. It implements http.RoundTripper.
type handlerTransport struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &heldAnswer{header: http.Header{}, status: http.StatusOK}
	served := r.Clone(r.Context())
	served.Host, served.RemoteAddr = "localhost", "command line"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	h.ServeHTTP(w, served)
	return &http.Response{
		Status: strconv.Itoa(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// A heldAnswer is an answer in memory. It implements http.ResponseWriter.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *heldAnswer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *heldAnswer) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *heldAnswer) Write(b []byte) (int, error) { return w.body.Write(b) }
