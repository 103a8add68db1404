// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// Client is the TLS configuration of a client. The files are options of these names.
type Client struct {
	// Base is copied for each connection. It may be nil.
	Base                      *tls.Config
	CAFile, CertFile, KeyFile string
}

// Option returns the name of an option that is set, or "".
func (c Client) Option() string {
	switch {
	case c.CAFile != "":
		return "CAFile"
	case c.CertFile != "":
		return "CertFile"
	case c.KeyFile != "":
		return "KeyFile"
	case c.Base != nil:
		return "TLS"
	}
	return ""
}

// Config reads the CA file and returns the configuration for one connection to host.
func (c Client) Config(host string) (*tls.Config, error) {
	config := &tls.Config{}
	if c.Base != nil {
		config = c.Base.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" {
		config.ServerName = host
	}
	if c.CAFile != "" || c.CertFile != "" {
		config.ClientSessionCache = nil // a resumed session relies on the certificates of the first
	}
	if c.CAFile != "" {
		var err error
		if config.RootCAs, err = Authorities("CAFile", c.CAFile); err != nil {
			return nil, err
		}
	}
	if c.CertFile != "" {
		// Read once here, so that a missing file is an error even if the peer requests no
		// certificate. The handshake reads it again and uses that result.
		if _, err := Pair(c.CertFile, c.KeyFile); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return Pair(c.CertFile, c.KeyFile)
		}
	}
	return config, nil
}

// Advice has the words for failed handshakes of a client.
type Advice struct {
	// Peer is the kind of the other side, such as broker. Address is the option with its host.
	Peer, Address string
	// Plain is the advice if the peer does not speak TLS.
	Plain string
}

// Alerts by their text, because their type is not exported.
var (
	alertUnknownCA = tls.AlertError(48).Error()
	alertInternal  = tls.AlertError(80).Error()
)

// Permanent returns whether a handshake failed permanently, and advice for a known cause. With TLS 1.3
// the first read after the handshake fails if the peer refuses the client's certificate.
func (a Advice) Permanent(err error) (advice string, permanent bool) {
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	var remote *net.OpError
	switch {
	case errors.As(err, &record):
		return "the " + a.Peer + " does not speak TLS on this port: " + a.Plain, true
	case errors.As(err, &verification):
		return "the " + a.Peer + "'s certificate was not accepted: " + a.verification(verification), true
	case !errors.As(err, &remote) || remote.Op != "remote error": // not an alert
		return "", false
	case remote.Err.Error() == alertInternal:
		return "the " + a.Peer + " failed: check its certificate files and its log", false
	case remote.Err.Error() == alertUnknownCA:
		return "the " + a.Peer + " does not trust the CA of the certificate: check CertFile and KeyFile", true
	}
	return "the " + a.Peer + " refused the handshake: check CertFile and KeyFile; the certificate must be valid now " +
		"and allow client authentication", true
}

func (a Advice) verification(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host) && len(host.Certificate.DNSNames)+len(host.Certificate.IPAddresses) == 0:
		return "issue it with a subjectAltName for the host in " + a.Address
	case errors.As(err, &host):
		return "check the host in " + a.Address + ": it must be a name of the certificate"
	case errors.As(err, &authority):
		return "check CAFile, it must contain the CA that signed the certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew it at the " + a.Peer + ", or check this machine's clock"
	}
	return "check CAFile and the host in " + a.Address
}
