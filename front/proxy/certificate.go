package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/weirgate/weir/internal/kept"
)

// A certificate is read again when its files change.
type certificate struct{ *kept.Files[*tls.Certificate] }

func newCertificate(cert, key string, logger *slog.Logger) (*certificate, error) {
	files, err := kept.Read(func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		switch {
		case errors.As(err, new(*fs.PathError)):
			return nil, fmt.Errorf("tls: %w", err) // it names the file
		case err != nil:
			return nil, fmt.Errorf("tls: %s, %s: %w", cert, key, err)
		}
		return &pair, nil
	}, logger, cert, key)
	return &certificate{files}, err
}

// get is the [tls.Config.GetCertificate] of the listener.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.At(time.Now()), nil
}
