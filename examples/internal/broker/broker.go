// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker checks what a command line says of a broker: --broker, --broker-ca, --broker-cert, --broker-key, --username and
// --password-file.
package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// Check returns an error that names the flag, and the file that it names, where the options cannot be used. Files are read
// once, and again for each connection: they may be replaced later, but nobody starts with wrong ones on purpose.
func Check(o mqtt.Options) error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("--broker-cert and --broker-key go together")
	}
	if _, err := mqtt.New(o); err != nil { // which connects to nobody
		return fmt.Errorf("--broker: %w", err)
	}
	if o.CAFile != "" {
		content, err := os.ReadFile(o.CAFile)
		if err != nil {
			return fmt.Errorf("--broker-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(content) {
			return fmt.Errorf("--broker-ca: %s holds no certificate in PEM", o.CAFile)
		}
	}
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return fmt.Errorf("--broker-cert %s, --broker-key %s: %w", o.CertFile, o.KeyFile, err)
		}
	}
	if o.PasswordFile != "" {
		content, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		if strings.Trim(string(content), "\r\n") == "" {
			return fmt.Errorf("--password-file: %s is empty", o.PasswordFile)
		}
	}
	return nil
}
