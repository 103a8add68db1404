// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// CheckBroker returns an error with the flag and its file if the options are invalid. Files are read
// again for each connection, so they may be replaced later. The check finds mistakes at the start.
func CheckBroker(o mqtt.Options) error {
	if err := checkPair("broker-cert", "broker-key", o.CertFile, o.KeyFile); err != nil {
		return err
	}
	if _, err := mqtt.New(o); err != nil { // this does not connect
		return fmt.Errorf("--broker: %w", err)
	}
	if err := checkAuthorities("broker-ca", o.CAFile); err != nil {
		return err
	}
	return checkSecret("password-file", o.PasswordFile)
}

// CheckHub is CheckBroker for the connection to a hub.
func CheckHub(o grpc.Options) error {
	if err := checkPair("hub-cert", "hub-key", o.CertFile, o.KeyFile); err != nil {
		return err
	}
	if _, err := grpc.New(o); err != nil { // this does not connect
		return fmt.Errorf("--hub: %w", err)
	}
	if err := checkAuthorities("hub-ca", o.CAFile); err != nil {
		return err
	}
	return checkSecret("hub-token-file", o.TokenFile)
}

// CheckServer is CheckBroker for the server of a hub.
func CheckServer(o grpc.ServerOptions) error {
	if err := checkPair("grpc-cert", "grpc-key", o.CertFile, o.KeyFile); err != nil {
		return err
	}
	if _, err := grpc.NewServer(o); err != nil { // this does not listen
		return fmt.Errorf("--grpc: %w", err)
	}
	return checkAuthorities("grpc-client-ca", o.ClientCAFile)
}

func checkAuthorities(flag, file string) error {
	if file == "" {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return fmt.Errorf("--%s: %s: the file has no certificate in PEM", flag, file)
	}
	return nil
}

func checkPair(certFlag, keyFlag, cert, key string) error {
	if (cert == "") != (key == "") {
		return fmt.Errorf("--%s and --%s must be given together", certFlag, keyFlag)
	}
	if cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("--%s %s, --%s %s: %w", certFlag, cert, keyFlag, key, err)
	}
	return nil
}

func checkSecret(flag, file string) error {
	if file == "" {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if strings.Trim(string(content), "\r\n") == "" {
		return fmt.Errorf("--%s: %s: the file is empty", flag, file)
	}
	return nil
}
