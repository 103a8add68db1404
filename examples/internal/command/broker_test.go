// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestCheckBroker checks that errors contain the flags.
func TestCheckBroker(t *testing.T) {
	folder := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	authority := certtest.New(t)
	ca := authority.Write(t, folder, "ca")
	cert, key := authority.Issue(t, "agent").Write(t, folder, "agent")
	_, other := authority.Issue(t, "other").Write(t, folder, "other")
	bad, empty, password, missing := file("bad", "no PEM"), file("empty", "\n"), file("password", "secret\n"),
		filepath.Join(folder, "missing")
	const url = "mqtts://127.0.0.1:1"
	for _, tt := range []struct {
		reason  string
		options mqtt.Options
		want    []string // parts of the error; empty: no error
	}{
		{"all is well", mqtt.Options{BrokerURL: url, CAFile: ca, CertFile: cert, KeyFile: key, Username: "u",
			PasswordFile: password}, nil},
		{"a scheme that is none", mqtt.Options{BrokerURL: "tcp://b"}, []string{"--broker \"tcp://b\" has the scheme"}},
		{"no CA there", mqtt.Options{BrokerURL: url, CAFile: missing}, []string{"--broker-ca: ", missing}},
		{"no PEM in the CA", mqtt.Options{BrokerURL: url, CAFile: bad},
			[]string{"--broker-ca " + bad + " contains no certificate in PEM"}},
		{"a certificate without a key", mqtt.Options{BrokerURL: url, CertFile: cert},
			[]string{"only one of --broker-cert and --broker-key is set"}},
		{"no certificate there", mqtt.Options{BrokerURL: url, CertFile: missing, KeyFile: key},
			[]string{"--broker-cert " + missing, "no such file"}},
		{"no PEM in the key", mqtt.Options{BrokerURL: url, CertFile: cert, KeyFile: bad},
			[]string{"--broker-key " + bad, "PEM"}},
		{"the key of another", mqtt.Options{BrokerURL: url, CertFile: cert, KeyFile: other},
			[]string{"--broker-key " + other, "does not match"}},
		{"no password there", mqtt.Options{BrokerURL: url, Username: "u", PasswordFile: missing},
			[]string{"--password-file: ", missing}},
		{"an empty password", mqtt.Options{BrokerURL: url, Username: "u", PasswordFile: empty},
			[]string{"--password-file " + empty + " is empty"}},
	} {
		var named mqtt.Options
		command.BrokerFlags(command.NewFlags("agent").StringVar, &named)
		tt.options.OptionNames = named.OptionNames
		err := command.CheckBroker(tt.options)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.reason, err)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.reason, err, want)
			}
		}
	}
}
