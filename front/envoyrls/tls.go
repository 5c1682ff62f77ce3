package envoyrls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weirgate/weir/internal/kept"
)

// TLSFiles are what a listener with TLS is made of (GRPC_SERVER_TLS_CERT and _KEY, GRPC_CLIENT_TLS_CACERT and
// _SAN).
type TLSFiles struct {
	Cert, Key string
	// ClientCA, if given, has every client show a certificate that it signed.
	ClientCA string
	// ClientName, if given, is a DNS name or a URI, as in spiffe://…, that this certificate must be good for.
	ClientName string
}

// ServerTLS returns settings that follow the files: those of a new connection are made of what the files
// held at most a second ago. Files that cannot be used leave those before in force.
func ServerTLS(files TLSFiles, logger *slog.Logger) (*tls.Config, error) {
	settings, err := kept.Read(files.load, logger, files.Cert, files.Key, files.ClientCA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return settings.At(time.Now()), nil },
	}, nil
}

// load reads the files.
func (f *TLSFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("rls tls: %s, %s: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}}
	if f.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("rls tls: client CA: %w", err)
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("rls tls: client CA %s: no certificate in PEM", f.ClientCA)
	}
	if name := f.ClientName; name != "" {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("no client certificate")
			}
			return goodFor(s.PeerCertificates[0], name)
		}
	}
	return c, nil
}

// goodFor returns an error unless c is for name.
func goodFor(c *x509.Certificate, name string) error {
	for _, uri := range c.URIs {
		if uri.String() == name {
			return nil
		}
	}
	return c.VerifyHostname(name)
}
