package envoyrls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
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

// refreshEvery is how often the files are looked at, when connections come in.
const refreshEvery = time.Second

// ServerTLS returns settings that follow the files: those of a new connection are made of what the files
// held at most a second ago. Files that cannot be used leave those before in force.
func ServerTLS(files TLSFiles, logger *slog.Logger) (*tls.Config, error) {
	k := &kept{files: files, logger: logger}
	c, err := files.load()
	if err != nil {
		return nil, err
	}
	k.current.Store(c)
	k.stamp.Store(new(files.stamp()))
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			k.refresh(time.Now())
			return k.current.Load(), nil
		},
	}, nil
}

// kept is what the files held when they were last good.
type kept struct {
	files   TLSFiles
	logger  *slog.Logger
	current atomic.Pointer[tls.Config]
	stamp   atomic.Pointer[[3]fileStamp]
	next    atomic.Int64 // when to look again, in Unix nanoseconds
}

// A fileStamp changes with a file.
type fileStamp struct {
	changed time.Time
	size    int64
}

func (f *TLSFiles) stamp() (stamps [3]fileStamp) {
	for i, name := range []string{f.Cert, f.Key, f.ClientCA} {
		if st, err := os.Stat(name); err == nil {
			stamps[i] = fileStamp{st.ModTime(), st.Size()}
		}
	}
	return stamps
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

// refresh reads the files again if they changed. One caller in a while looks, and none waits for it.
func (k *kept) refresh(now time.Time) {
	next := k.next.Load()
	if now.UnixNano() < next || !k.next.CompareAndSwap(next, now.Add(refreshEvery).UnixNano()) {
		return
	}
	stamp := k.files.stamp()
	if stamp == *k.stamp.Load() {
		return // also if they could not be used: that was said once
	}
	k.stamp.Store(&stamp)
	c, err := k.files.load()
	if err != nil {
		k.logger.Warn("the certificate could not be read again and stays as it was", "error", err)
		return
	}
	k.current.Store(c)
	k.logger.Info("the certificate was read again", "cert", k.files.Cert)
}
