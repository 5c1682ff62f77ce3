package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// upgrade lets client and upstream talk in the protocol that they changed to (RFC 9110 section 7.8),
// until one of them ends or the proxy stops.
func (t *transfer) upgrade(res *http.Response, asked http.Header) {
	back, ok := res.Body.(io.ReadWriteCloser)
	want, got := first(asked["Upgrade"]), res.Header.Get("Upgrade")
	if !ok || want == "" || !strings.EqualFold(want, got) {
		res.Body.Close()
		t.fail(fmt.Errorf("upstream changed to protocol %q when %q was asked for", got, want))
		return
	}
	defer back.Close()
	conn, buffered, err := http.NewResponseController(t.w).Hijack()
	if err != nil {
		t.fail(fmt.Errorf("upgrade: %w", err))
		return
	}
	defer conn.Close()
	defer context.AfterFunc(t.in.Context(), func() { back.Close(); conn.Close() })()
	h := t.w.Header()
	for name, lines := range res.Header {
		h[name] = lines
	}
	res.Header, res.Body = h, nil
	if err := errors.Join(res.Write(buffered), buffered.Flush()); err != nil {
		t.call.Outcome.Err = fmt.Errorf("%w: %w", errClientGone, err)
		return
	}
	// What net/http has read already comes first. Its reader is not used beyond: at its end the request
	// would be over for both sides.
	early, _ := buffered.Peek(buffered.Reader.Buffered())
	talk(conn, io.MultiReader(bytes.NewReader(early), conn), back)
}

// talk copies both ways. One way may end before the other; an error ends both.
func talk(client io.WriteCloser, said io.Reader, upstream io.ReadWriteCloser) {
	ends := make(chan error, 2)
	go func() { ends <- relay(upstream, said) }()
	go func() { ends <- relay(client, upstream) }()
	if <-ends != nil {
		client.Close()
		upstream.Close()
	}
	<-ends
}

// relay copies until from ends, and tells to so. If it cannot be told, that is an error.
func relay(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.EOF
}
