// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cabundle checks bundles of CA certificates.
package cabundle

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Check returns an error unless a bundle has at least one certificate in PEM, and all its
// PEM blocks are valid certificates.
func Check(bundle []byte) error {
	n, rest := 0, bundle
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("has a PEM block of type %s: must have only certificates", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d cannot be read: %w", n+1, err)
		}
		n++
	}
	switch {
	case n == 0:
		return errors.New("has no PEM certificate")
	case strings.Contains(string(rest), "-----BEGIN"):
		return fmt.Errorf("ends within certificate %d", n+1)
	}
	return nil
}
