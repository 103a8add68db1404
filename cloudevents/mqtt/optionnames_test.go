// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestErrorsHaveOptionNames checks that errors of the constructor, of files and of connections name
// the flags of a program.
func TestErrorsHaveOptionNames(t *testing.T) {
	ca, other, folder := certtest.New(t), certtest.New(t), t.TempDir()
	broker := startEmbedded(t, embeddedOptions{tls: &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "broker").Certificate},
	}})
	otherFile, missing := other.Write(t, folder, "other"), filepath.Join(folder, "missing")
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		options mqtt.Options
		want    string
	}{
		{mqtt.Options{BrokerURL: "broker"}, `--broker "broker" has no scheme`},
		{mqtt.Options{BrokerURL: "mqtt://b", CAFile: missing}, `--broker-ca is set, but --broker "mqtt://b:1883" is not`},
		{mqtt.Options{BrokerURL: "mqtts://b", CertFile: missing}, "only one of --broker-cert and --broker-key is set"},
		{mqtt.Options{BrokerURL: "mqtts://b", CAFile: missing}, "--broker-ca: open " + missing},
		{mqtt.Options{BrokerURL: "mqtts://b", CAFile: empty}, "--broker-ca " + empty + " contains no certificate in PEM"},
		{mqtt.Options{BrokerURL: "mqtts://b", CertFile: missing, KeyFile: empty},
			"--broker-cert " + missing + ", --broker-key " + empty + ": open "},
		{mqtt.Options{BrokerURL: "mqtt://b", Username: "u", PasswordFile: missing}, "--password-file: open " + missing},
		{mqtt.Options{BrokerURL: "mqtt://b", Username: "u", PasswordFile: empty}, "--password-file " + empty + " is empty"},
		{mqtt.Options{BrokerURL: "mqtts://" + broker.addr, CAFile: otherFile}, "check --broker-ca, it must contain the CA"},
		{mqtt.Options{BrokerURL: "mqtt://" + broker.addr}, "If this port uses TLS, write mqtts:// in --broker"},
	} {
		test.options.OptionNames = map[string]string{
			"BrokerURL": "--broker", "CAFile": "--broker-ca", "CertFile": "--broker-cert", "KeyFile": "--broker-key",
			"Username": "--username", "PasswordFile": "--password-file",
		}
		transport, err := mqtt.New(test.options)
		if err == nil {
			err = transport.CheckFiles()
		}
		if err == nil {
			_, err = transport.Connect(t.Context(), connectOptions(t, nil))
		}
		wantError(t, err, test.want)
	}
}
