// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package broker_test

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBroker(t *testing.T) {
	b, err := broker.Open("")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.URL())
	if err != nil || u.Scheme != "mqtt" || u.Hostname() != "127.0.0.1" {
		t.Fatalf("URL %q, %v", b.URL(), err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatalf("nobody listens: %v", err)
	}
	_ = conn.Close()
	b.Close()
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		_ = conn.Close()
		t.Error("somebody still listens after Close")
	}
}

func TestBrokerElsewhere(t *testing.T) {
	b, err := broker.Open("mqtts://broker.example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.URL() != "mqtts://broker.example.com" || b.String() != b.URL() {
		t.Errorf("URL %q, String %q", b.URL(), b)
	}
}

func TestOpenRefusesCredentials(t *testing.T) {
	if _, err := broker.Open("mqtt://user:secret@broker"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("credentials in the URL: %v", err)
	}
}
