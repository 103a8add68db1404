// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// tlsConfig is a configuration for one connection.
type tlsConfig = *tls.Config

// tlsConfig reads the CA file and returns the configuration for one connection to host.
func (o Options) tlsConfig(host string) (tlsConfig, error) {
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" {
		config.ServerName = host
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CAFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CAFile %s holds no certificate in PEM", o.CAFile)
		}
	}
	if o.CertFile != "" {
		// Read once here, so that a missing file is an error even where the broker asks for no certificate,
		// and again in the handshake, which is when it counts.
		if _, err := o.certificate(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return o.certificate() }
	}
	return config, nil
}

func (o Options) certificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("CertFile %s, KeyFile %s: %w", o.CertFile, o.KeyFile, err)
	}
	return &certificate, nil
}

// permanentTLS reports whether a handshake failed for what another attempt will not mend, and what to do. With
// TLS 1.3 a broker refuses the client's certificate after the client has finished: then the first read fails.
func permanentTLS(err error) (string, bool) {
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	var remote *net.OpError
	switch {
	case errors.As(err, &record):
		return "the broker does not speak TLS on this port: check port and scheme", true
	case errors.As(err, &verification):
		return "the broker's certificate was not accepted: check CAFile and the host in BrokerURL", true
	case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert; its own type is not exported
		return "the broker refused the handshake: check CertFile and KeyFile", true
	}
	return "", false
}
