// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// CheckBroker returns an error with the flag and its file if the options are invalid. Files are read
// again for each connection, so they may be replaced later. The check finds mistakes at the start.
func CheckBroker(o mqtt.Options) error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("--broker-cert and --broker-key must be given together")
	}
	if _, err := mqtt.New(o); err != nil { // this does not connect
		return fmt.Errorf("--broker: %w", err)
	}
	if o.CAFile != "" {
		content, err := os.ReadFile(o.CAFile)
		if err != nil {
			return fmt.Errorf("--broker-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(content) {
			return fmt.Errorf("--broker-ca: %s: the file has no certificate in PEM", o.CAFile)
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
			return fmt.Errorf("--password-file: %s: the file is empty", o.PasswordFile)
		}
	}
	return nil
}
