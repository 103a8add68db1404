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

// certificates reads the server's certificate, and the CA of its clients, at each handshake. While the
// files are invalid, for example because only one of a pair is replaced, the previous ones stay in use.
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
	return &certificates{
		certFile: filepath.Join(o.CertDir, o.CertName), keyFile: filepath.Join(o.CertDir, o.KeyName),
		clientCAFile: o.ClientCAFile, metrics: newCertificateMetrics(o.MetricsRegisterer),
	}
}

// load reads all files for the first time.
func (c *certificates) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.readPair()
	if err == nil && c.clientCAFile != "" {
		err = c.readClients()
	}
	return err
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
	// Probes need no certificate. checkClient verifies those of requests to handlers.
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

// checkClient returns an error if a client must not send requests. It is called for each request: a
// connection may be older than the CA.
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

// news returns err, or nil if its text is the one in told. It stores the text, or "" without an error.
func news(told *string, err error) error {
	before := *told
	*told = ""
	if err != nil {
		*told = err.Error()
	}
	if *told == before {
		return nil
	}
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
