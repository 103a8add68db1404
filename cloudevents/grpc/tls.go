// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// tlsConfig reads the CA file and returns the configuration for one connection to host.
func (o Options) tlsConfig(host string) (*tls.Config, error) {
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" {
		config.ServerName = host
	}
	if o.CAFile != "" || o.CertFile != "" {
		config.ClientSessionCache = nil // a resumed session relies on the certificates of the first
	}
	if o.CAFile != "" {
		var err error
		if config.RootCAs, err = tlsfiles.Authorities("CAFile", o.CAFile); err != nil {
			return nil, err
		}
	}
	if o.CertFile != "" {
		// Read once here, so that a missing file is an error even if the server requests no
		// certificate. The handshake reads it again and uses that result.
		if _, err := tlsfiles.Pair(o.CertFile, o.KeyFile); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return tlsfiles.Pair(o.CertFile, o.KeyFile)
		}
	}
	return config, nil
}

// fileError marks an error as permanent if a file cannot be read. Invalid content is not permanent:
// the file may be in the middle of a replacement.
func fileError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return &cloudevents.PermanentError{Err: err}
	}
	return err
}

// permanentTLS returns whether a handshake failed permanently, and advice. With TLS 1.3 the first
// read after the handshake fails if the server refuses the client's certificate.
func permanentTLS(err error) (string, bool) {
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	var remote *net.OpError
	switch {
	case errors.As(err, &record):
		return "the server does not speak TLS on this port: check the port, or set Insecure", true
	case errors.As(err, &verification):
		return "the server's certificate was not accepted: " + verificationAdvice(verification), true
	case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert; its own type is not exported
		return "the server refused the handshake: check CertFile and KeyFile", true
	}
	return "", false
}

func verificationAdvice(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return "check the host in Address, or set TLS.ServerName to a name that the certificate has"
	case errors.As(err, &authority):
		return "check CAFile, it must contain the CA that signed the certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew it at the server, or check this machine's clock"
	}
	return "check CAFile and the host in Address"
}
