// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles reads certificates from files that may be replaced while a program runs. Its errors
// contain the names of options.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// pairAttempts is the number of times that certificate and key are read if they do not match. When
// Kubernetes replaces the whole folder in between, one file is old and one new.
const pairAttempts = 3

// Authorities reads the CAs of an option. It refuses a partly written file, which would lead to a
// misleading error.
func Authorities(option, file string) (*x509.CertPool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s %s contains no certificate in PEM", option, file)
	}
	rest := content
	for block, next := pem.Decode(rest); block != nil; block, next = pem.Decode(rest) {
		rest = next
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, fmt.Errorf("%s %s ends within a certificate: is it being replaced?", option, file)
	}
	return pool, nil
}

// Pair reads a certificate and its key, of the options CertFile and KeyFile.
func Pair(certFile, keyFile string) (*tls.Certificate, error) {
	var certificate tls.Certificate
	var err error
	for range pairAttempts {
		if certificate, err = tls.LoadX509KeyPair(certFile, keyFile); err == nil {
			return &certificate, nil
		}
	}
	return nil, fmt.Errorf("CertFile %s, KeyFile %s: %w", certFile, keyFile, err)
}
