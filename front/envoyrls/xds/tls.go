package xds

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles are what a connection with TLS is made of, PEM (CONFIG_GRPC_XDS_CLIENT_TLS_CERT and _KEY,
// CONFIG_GRPC_XDS_SERVER_TLS_CACERT and _SAN). Those that are empty are not used.
type TLSFiles struct {
	Cert, Key string // what Weir shows
	ServerCA  string // who must have signed the server's certificate; the system's where it is empty
	// ServerName is what the certificate must be good for; the server's host where it is empty.
	ServerName string
}

// ClientTLS returns the settings that files make. The certificate is read again for every connection.
func ClientTLS(files TLSFiles) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName}
	if files.ServerCA != "" {
		pem, err := os.ReadFile(files.ServerCA)
		if err != nil {
			return nil, fmt.Errorf("xds tls: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("xds tls: %s holds no PEM certificate", files.ServerCA)
		}
	}
	if files.Cert == "" && files.Key == "" {
		return c, nil
	}
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("xds tls: %s, %s: %w", files.Cert, files.Key, err)
		}
		return &pair, nil
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	_, err := read()
	return c, err
}
