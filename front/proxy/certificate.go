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
	current   atomic.Pointer[keyPair]
	next      atomic.Int64 // when to look again, in Unix nanoseconds
}

// A keyPair is a certificate as it was read, and what its files looked like.
type keyPair struct {
	tls.Certificate
	stamp stamp
}

// A stamp changes with the two files.
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
	if err := c.load(s); err != nil {
		return nil, err
	}
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
func (c *certificate) load(s stamp) error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("tls: %s, %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&keyPair{pair, s})
	return nil
}

// get is the [tls.Config.GetCertificate] of the listener.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.refresh(time.Now())
	return &c.current.Load().Certificate, nil
}

// refresh reads the files again if they changed. One caller in a while looks, and none waits for it.
func (c *certificate) refresh(now time.Time) {
	next := c.next.Load()
	if now.UnixNano() < next || !c.next.CompareAndSwap(next, now.Add(lookEvery).UnixNano()) {
		return
	}
	s, err := c.look()
	if err == nil && s == c.current.Load().stamp {
		return
	}
	if err == nil {
		err = c.load(s)
	}
	if err != nil {
		c.logger.Warn("the certificate could not be read again and stays as it was", "error", err)
		return
	}
	c.logger.Info("the certificate was read again", "cert", c.cert)
}
