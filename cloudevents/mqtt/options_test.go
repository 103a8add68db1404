// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

func TestNewValidates(t *testing.T) {
	table := []struct {
		name    string
		options mqtt.Options
		want    string // part of the error; empty without an error
	}{
		{"mqtt", mqtt.Options{BrokerURL: "mqtt://broker"}, ""},
		{"mqtts with port", mqtt.Options{BrokerURL: "mqtts://broker:8884"}, ""},
		{"ws with path and query", mqtt.Options{BrokerURL: "ws://broker/mqtt?x=y"}, ""},
		{"wss", mqtt.Options{BrokerURL: "wss://broker/"}, ""},
		{"IPv6", mqtt.Options{BrokerURL: "mqtt://[::1]:1883"}, ""},
		{"trailing slash", mqtt.Options{BrokerURL: "mqtt://broker/"}, ""},
		{"CA alone", mqtt.Options{BrokerURL: "mqtts://broker", CAFile: "ca.crt"}, ""},
		{"password without TLS is the URL's decision", mqtt.Options{BrokerURL: "mqtt://broker", Username: "u", Password: "p"},
			""},
		{"session", mqtt.Options{BrokerURL: "mqtt://broker", ClientID: "c", SessionExpiry: time.Hour}, ""},

		{"empty", mqtt.Options{}, "BrokerURL is empty: write mqtt://"},
		{"no scheme", mqtt.Options{BrokerURL: "broker:1883"}, `"broker:1883" has no scheme: write mqtt://`},
		{"another scheme", mqtt.Options{BrokerURL: "tcp://broker:1883"},
			`scheme "tcp", which is not supported: write mqtt://`},
		{"no host", mqtt.Options{BrokerURL: "mqtt://:1883"}, "has no host"},
		{"path on mqtt", mqtt.Options{BrokerURL: "mqtt://broker/path"}, "only ws and wss have a path"},
		{"query on mqtt", mqtt.Options{BrokerURL: "mqtt://broker?x=y"}, "only ws and wss have a path"},
		{"bad port", mqtt.Options{BrokerURL: "mqtt://broker:port"}, "is not a URL"},
		{"user in URL", mqtt.Options{BrokerURL: "mqtt://user:s3cret@broker"},
			"use Username and PasswordFile instead"},
		{"user without a URL", mqtt.Options{BrokerURL: "user:s3cret@broker:x"},
			"use Username and PasswordFile instead"},
		{"TLS without encryption", mqtt.Options{BrokerURL: "mqtt://broker", TLS: &tls.Config{}}, "use mqtts:// or wss://"},
		{"CA without encryption", mqtt.Options{BrokerURL: "ws://broker", CAFile: "ca.crt"}, "use mqtts:// or wss://"},
		{"certificate without key", mqtt.Options{BrokerURL: "mqtts://broker", CertFile: "c"},
			"only one of CertFile and KeyFile is set"},
		{"key without certificate", mqtt.Options{BrokerURL: "mqtts://broker", KeyFile: "k"},
			"only one of CertFile and KeyFile is set"},
		{"two certificates", mqtt.Options{BrokerURL: "mqtts://broker", CertFile: "c", KeyFile: "k",
			TLS: &tls.Config{Certificates: make([]tls.Certificate, 1)}}, "set one of them"},
		{"two CAs", mqtt.Options{BrokerURL: "mqtts://broker", CAFile: "c", TLS: &tls.Config{RootCAs: x509.NewCertPool()}},
			"set one of them"},
		{"two passwords", mqtt.Options{BrokerURL: "mqtts://broker", Password: "s3cret", PasswordFile: "f"},
			"set one of them"},
		{"session without a client ID", mqtt.Options{BrokerURL: "mqtt://broker", SessionExpiry: 1},
			"SessionExpiry needs a ClientID"},
		{"negative session", mqtt.Options{BrokerURL: "mqtt://broker", ClientID: "c", SessionExpiry: -1},
			"must not be negative"},
		{"negative keep alive", mqtt.Options{BrokerURL: "mqtt://broker", KeepAlive: -1}, "invalid KeepAlive: -1ns: must be"},
		{"long keep alive", mqtt.Options{BrokerURL: "mqtt://broker", KeepAlive: 20 * time.Hour}, "invalid KeepAlive: 20h"},
		{"negative timeout", mqtt.Options{BrokerURL: "mqtt://broker", ConnectTimeout: -1},
			"invalid ConnectTimeout: -1ns: must not be negative"},
		{"control character", mqtt.Options{BrokerURL: "mqtt://broker", ClientID: "a\nb"},
			"ClientID contains the character U+000A"},
		{"not UTF-8", mqtt.Options{BrokerURL: "mqtt://broker", Username: "a\xff"}, "Username is not UTF-8"},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			_, err := mqtt.New(row.options)
			switch {
			case row.want == "" && err != nil:
				t.Errorf("New: %v", err)
			case row.want != "" && err == nil:
				t.Errorf("New succeeded, want an error with %q", row.want)
			case err != nil && (!strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("New: %v, want an error with %q and without the password", err, row.want)
			}
		})
	}
}

// TestSecretsAreNotPrinted checks that no verb prints the password, nor JSON, nor klog, even if
// options are nested.
func TestSecretsAreNotPrinted(t *testing.T) {
	options := mqtt.Options{BrokerURL: "mqtt://broker", Username: "user", Password: "s3cret"}
	inURL := mqtt.Options{BrokerURL: "mqtt://user:s3cret@broker", Username: "user"}
	transport, err := mqtt.New(options)
	if err != nil {
		t.Fatal(err)
	}
	type config struct {
		Name    string
		Options mqtt.Options
		Pointer *mqtt.Options
	}
	var printed []string
	for _, value := range []any{options, &options, inURL, config{"c", options, &options}, []mqtt.Options{options},
		transport, transport.Settings()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			printed = append(printed, fmt.Sprintf(verb, value))
		}
		var sink bytes.Buffer
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&sink)))
		logger.Info("configured", "options", value)
		printed = append(printed, sink.String())
	}
	encoded, err := json.Marshal(config{"c", options, &options})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(printed, string(encoded)) {
		// %x writes the bytes of strings in hexadecimal.
		if strings.Contains(s, "s3cret") || strings.Contains(s, fmt.Sprintf("%x", "s3cret")) {
			t.Errorf("the password is printed: %s", s)
		}
	}
	if s := options.String(); !strings.Contains(s, "Username:user") || !strings.Contains(s, "[redacted]") {
		t.Errorf("String is %q, want the user and a sign that there is a password", s)
	}
}
