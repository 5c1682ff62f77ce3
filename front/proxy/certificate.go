package proxy

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// lookEvery is how often the files of a certificate are looked at, when connections come in.
const lookEvery = time.Second

// A certificate is read again when its files change, by symlink swap or in place.
type certificate struct {
	cert, key string
	logger    *slog.Logger
	current   atomic.Pointer[tls.Certificate]
	seen      atomic.Pointer[stamp] // of the files, whether they could be used or not
	next      atomic.Int64          // when to look again, in Unix nanoseconds
}

// A stamp changes with the two files. It is the zero stamp if one of them is not there.
type stamp struct {
	certTime, keyTime time.Time
	certSize, keySize int64
}

func newCertificate(cert, key string, logger *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, logger: logger}
	s, err := c.look()
	if err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.seen.Store(&s)
	return c, nil
}

// look returns the present stamp of the files.
func (c *certificate) look() (stamp, error) {
	cert, err := os.Stat(c.cert)
	if err != nil {
		return stamp{}, fmt.Errorf("tls: %w", err)
	}
	key, err := os.Stat(c.key)
	if err != nil {
		return stamp{}, fmt.Errorf("tls: %w", err)
	}
	return stamp{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}

// load reads the files. A pair that does not fit leaves the one before in use.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("tls: %s, %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	return nil
}

// get is the [tls.Config.GetCertificate] of the listener.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.refresh(time.Now())
	return c.current.Load(), nil
}

// refresh reads the files again if they changed. One caller in a while looks, and none waits for it.
func (c *certificate) refresh(now time.Time) {
	next := c.next.Load()
	if now.UnixNano() < next || !c.next.CompareAndSwap(next, now.Add(lookEvery).UnixNano()) {
		return
	}
	s, err := c.look()
	if s == *c.seen.Load() {
		return // also if it could not be used: that was said once
	}
	c.seen.Store(&s)
	if err == nil {
		err = c.load()
	}
	if err != nil {
		c.logger.Warn("the certificate could not be read again and stays as it was", "error", err)
		return
	}
	c.logger.Info("the certificate was read again", "cert", c.cert)
}
