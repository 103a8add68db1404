// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

func TestLoadOptions(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "mqtt.yaml")
	writeFile(t, path, `
brokerURL: mqtts://broker.example.com:8884
clientID: cluster1-agent
binary: true
username: cluster1
passwordFile: password
caFile: tls/ca.crt
certFile: /absolute/tls.crt
keyFile: ../tls.key
keepAlive: 45s
connectTimeout: 1m30s
sessionExpiry: 1h
maxPacketSize: 1048576
`)
	got, err := mqtt.LoadOptions(path)
	if err != nil {
		t.Fatal(err)
	}
	want := mqtt.Options{
		BrokerURL: "mqtts://broker.example.com:8884", ClientID: "cluster1-agent", Binary: true,
		Username: "cluster1", PasswordFile: filepath.Join(folder, "password"),
		CAFile: filepath.Join(folder, "tls", "ca.crt"), CertFile: "/absolute/tls.crt",
		KeyFile:   filepath.Join(filepath.Dir(folder), "tls.key"),
		KeepAlive: 45 * time.Second, ConnectTimeout: 90 * time.Second, SessionExpiry: time.Hour, MaxPacketSize: 1 << 20,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// TestLoadOptionsErrors checks that errors name the file and the key, and do not contain the
// password.
func TestLoadOptionsErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mqtt.yaml")
	write := func(content string) { writeFile(t, path, content) }
	table := []struct{ name, content, want string }{
		{"unknown key", "brokerURL: mqtt://b\nbrokerUrls: x", `unknown key "brokerUrls"`},
		{"key in another case", "brokerURL: mqtt://b\nbrokerurl: mqtt://c", `unknown key "brokerurl"`},
		{"second document", "# mine\n---\nbrokerURL: mqtt://b\n---\nbrokerURL: mqtt://c", "more than one YAML document"},
		{"list", "- brokerURL", "not a YAML mapping"},
		{"number for a name", "brokerURL: 7", "brokerURL: must be a string, not a number"},
		{"port", "brokerURL: mqtt://b:99999", "port 99999"},
		{"repeated key", "brokerURL: mqtt://b\nbrokerURL: mqtt://c", "already set"},
		{"no YAML", "\t{", "yaml"},
		{"password that YAML takes for a number", "brokerURL: mqtt://b\npassword: 0123498765", "write it in quotes"},
		{"duration without unit", "brokerURL: mqtt://b\nkeepAlive: 30",
			"keepAlive: 30 is not a duration: write for example 30s"},
		{"invalid duration", "brokerURL: mqtt://b\nkeepAlive: soon", `"soon" is not a duration`},
		{"invalid size", "brokerURL: mqtt://b\nmaxPacketSize: -1", "maxPacketSize"},
		{"invalid options", "clientID: c", "BrokerURL is empty"},
		{"empty file", "", "BrokerURL is empty"},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			write(row.content)
			_, err := mqtt.LoadOptions(path)
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("LoadOptions: %v, want an error with %q and the file's name", err, row.want)
			}
			if strings.Contains(err.Error(), "123498765") {
				t.Errorf("LoadOptions: %v, which contains the password", err)
			}
		})
	}
	write("brokerURL: mqtts://b\npassword: \"0123\"")
	if got, err := mqtt.LoadOptions(path); err != nil || got.Password != "0123" {
		t.Errorf("LoadOptions: %v, password %q, want 0123", err, got.Password)
	}
	if _, err := mqtt.LoadOptions(path + ".missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadOptions of a missing file: %v", err)
	}
}
