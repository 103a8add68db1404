// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/interpreter/internal/cabundle"
)

// certificates reads the server's certificate, and the CA of its clients, at each handshake. It
// compares the content of files, so the way to replace them does not matter. If the files are
// invalid, for example because only one of a pair is replaced, the previous certificate or CA stays
// in use.
type certificates struct {
	certFile, keyFile, clientCAFile string
	logger                          klog.Logger
	metrics                         *certificateMetrics

	mu                  sync.Mutex
	certPEM, keyPEM     []byte // of certificate
	certificate         *tls.Certificate
	clientPEM           []byte // of clients
	clients             *x509.CertPool
	badPair, badClients string // the last logged errors; empty for valid files
}

func newCertificates(o *ServerOptions) *certificates {
	c := &certificates{
		certFile: filepath.Join(o.CertDir, o.CertName), keyFile: filepath.Join(o.CertDir, o.KeyName),
		clientCAFile: o.ClientCAFile, metrics: newCertificateMetrics(o.MetricsRegisterer),
	}
	return c
}

// load reads all files for the first time. It returns an error if one is missing or invalid.
func (c *certificates) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.readPair(); err != nil {
		return err
	}
	if c.clientCAFile == "" {
		return nil
	}
	return c.readClients()
}

// config returns the server's TLS configuration.
func (c *certificates) config() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
	if c.clientCAFile == "" {
		return config
	}
	// A resumed session would keep the client certificates of its first handshake.
	config.SessionTicketsDisabled = true
	// Probes need no certificate, so the handshake verifies none. checkClient verifies each request
	// to a handler.
	config.ClientAuth = tls.RequestClientCert
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := each.Clone()
		config.ClientCAs = c.currentClients()
		return config, nil
	}
	return config
}

func (c *certificates) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := news(&c.badPair, c.readPair()); err != nil {
		c.metrics.failed()
		c.logger.Error(err, "Failed to reload certificate")
	}
	return c.certificate
}

func (c *certificates) currentClients() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := news(&c.badClients, c.readClients()); err != nil {
		c.metrics.failed()
		c.logger.Error(err, "Failed to reload client CA")
	}
	return c.clients
}

// checkClient returns an error if a client must not send requests. It is called for each request,
// since a connection may be older than the CA.
func (c *certificates) checkClient(state *tls.ConnectionState) error {
	if state == nil || len(state.PeerCertificates) == 0 {
		return errors.New("a client certificate is required")
	}
	c.mu.Lock()
	roots := c.clients
	c.mu.Unlock()
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("verify client certificate: %w", err)
	}
	return nil
}

// news returns an error, or nil if told has its text already. It stores the text in told, or clears
// told without an error.
func news(told *string, err error) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == *told {
		return nil
	}
	*told = text
	return err
}

// readPair reads the certificate and the key if they have changed.
func (c *certificates) readPair() error {
	certPEM, err := os.ReadFile(c.certFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(c.keyFile)
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	if c.certificate != nil && bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return nil
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("load certificate %s and key %s: %w", c.certFile, c.keyFile, err)
	}
	c.certPEM, c.keyPEM, c.certificate = certPEM, keyPEM, &certificate
	if certificate.Leaf != nil {
		c.metrics.loaded(certificate.Leaf.NotAfter)
	}
	return nil
}

func (c *certificates) readClients() error {
	content, err := os.ReadFile(c.clientCAFile)
	if err != nil {
		return fmt.Errorf("read client CA: %w", err)
	}
	if c.clients != nil && bytes.Equal(content, c.clientPEM) {
		return nil
	}
	if err := cabundle.Check(content); err != nil {
		return fmt.Errorf("client CA %s %w", c.clientCAFile, err)
	}
	c.clientPEM, c.clients = content, x509.NewCertPool()
	c.clients.AppendCertsFromPEM(content)
	return nil
}
