// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynsec_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/mqtt/dynsec"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a broker with the plugin.
type site struct {
	t      *testing.T
	dir    string
	ca     *certtest.Authority
	broker *mosquitto.Broker
}

// newSite starts a broker. Without the plugin, all clients have all rights.
func newSite(t *testing.T, withPlugin bool) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), ca: certtest.New(t)}
	ca := s.ca.Write(t, s.dir, "ca")
	cert, key := s.ca.Issue(t, "broker").Write(t, s.dir, "broker")
	rights := filepath.Join(s.dir, "dynamic-security.json")
	if err := os.WriteFile(rights, dynsec.Config("hub", "CN=hub"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.broker = mosquitto.Start(t, mosquitto.Options{CertFile: cert, Config: func(port int) string {
		config := fmt.Sprintf("listener %d 127.0.0.1\ncertfile %s\nkeyfile %s\ncafile %s\nrequire_certificate true\n"+
			"use_subject_as_username true\nlog_dest stderr\nlog_type all\n", port, cert, key, ca)
		if withPlugin {
			config += "plugin " + mosquitto.DynamicSecurity(t) + "\nplugin_opt_config_file " + rights + "\n"
		}
		return config
	}})
	return s
}

// as returns the options of a client with a certificate for a name and an organizational unit.
func (s *site) as(name, unit string) mqtt.Options {
	s.t.Helper()
	dir := s.t.TempDir()
	cert, key := s.ca.IssueUnit(s.t, name, unit).Write(s.t, dir, "client")
	return mqtt.Options{
		BrokerURL: s.broker.URL(), CAFile: filepath.Join(s.dir, "ca.crt"), CertFile: cert, KeyFile: key,
		ConnectTimeout: 20 * time.Second,
	}
}

func (s *site) client(o mqtt.Options) *dynsec.Client {
	s.t.Helper()
	c, err := dynsec.New(dynsec.Options{Broker: o, SourceID: "hub"})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *site) apply(changes ...join.Change) {
	s.t.Helper()
	if err := s.client(s.as("hub", "")).Apply(s.t.Context(), changes); err != nil {
		s.t.Fatal(err)
	}
}

// connect subscribes to the specs of a cluster.
func connect(t *testing.T, o mqtt.Options, filter string) (cloudevents.Conn, error) {
	t.Helper()
	transport, err := mqtt.New(o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: []string{filter}, Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

const own, all = "/sources/hub/clusters/c1/manifests", "/sources/+/clusters/c1/manifests"

func TestAdmitAndRefuse(t *testing.T) {
	s := newSite(t, true)
	first, second := s.as("c1", "join-1"), s.as("c1", "join-2")
	denied := func(what string, o mqtt.Options, filter string) {
		t.Helper()
		if _, err := connect(t, o, filter); err == nil {
			t.Errorf("%s: subscribed to %s", what, filter)
		}
	}
	denied("before a join", first, own)
	s.apply(join.Change{Cluster: "c1", Subject: "CN=c1,OU=join-1"}, join.Change{Cluster: "c2",
		Subject: "CN=c2,OU=join-1"})
	conn, err := connect(t, first, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range []string{"/sources/hub/clusters/c2/manifests", "/sources/+/clusters/+/manifests", "#",
		"/sources/hub/clusters/c1/manifestsstatus", "$CONTROL/dynamic-security/v1/response"} {
		denied("another topic", first, filter)
	}
	denied("another incarnation", second, own)
	s.apply(join.Change{Cluster: "c1", Subject: "CN=c1,OU=join-1"}) // again, as after a restart of the hub
	select {
	case <-conn.Done():
		t.Fatalf("the connection of an admitted agent ended: %v", conn.Err())
	default:
	}

	s.apply(join.Change{Cluster: "c1", Subject: "CN=c1", Revoked: true},
		join.Change{Cluster: "c1", Subject: "CN=c1,OU=join-1", Revoked: true})
	select {
	case <-conn.Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("the connection of a revoked agent is still open")
	}
	denied("after a revocation", first, own)
	s.apply(join.Change{Cluster: "c1", Subject: "CN=c1,OU=join-2"})
	if _, err := connect(t, second, own); err != nil {
		t.Errorf("after another join: %v", err)
	}
	denied("the old certificate, after another join", first, own)

	s.broker.Restart() // it has stored the users
	denied("the old certificate, after a restart", first, own)
	if _, err := connect(t, second, own); err != nil {
		t.Errorf("after a restart of the broker: %v", err)
	}
}

func TestManyChanges(t *testing.T) {
	s := newSite(t, true)
	var changes []join.Change
	for i := range 150 {
		changes = append(changes, join.Change{Cluster: fmt.Sprint("c", i), Subject: fmt.Sprintf("CN=c%d,OU=join-1", i)})
	}
	s.apply(changes...)
	if _, err := connect(t, s.as("c149", "join-1"), "/sources/hub/clusters/c149/manifests"); err != nil {
		t.Error(err)
	}
}

func TestApplyErrors(t *testing.T) {
	s, plain := newSite(t, true), newSite(t, false)
	s.apply(join.Change{Cluster: "c1", Subject: "CN=c1"})
	wrongCA := s.as("hub", "")
	wrongCA.CAFile = certtest.New(t).Write(t, t.TempDir(), "other")
	away := s.as("hub", "")
	away.BrokerURL = "mqtts://127.0.0.1:1"
	for want, o := range map[string]mqtt.Options{
		"unknown authority":    wrongCA,
		"connection refused":   away,
		"does the user have":   s.as("c1", ""),
		"does the broker have": plain.as("hub", ""),
	} {
		o.ConnectTimeout = 5 * time.Second
		err := s.client(o).Apply(t.Context(), []join.Change{{Cluster: "x", Subject: "CN=x"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]dynsec.Options{
		"BrokerURL":            {SourceID: "hub"},
		"SourceID is required": {Broker: mqtt.Options{BrokerURL: "mqtt://localhost"}},
		"must be mqtts":        {Broker: mqtt.Options{BrokerURL: "ws://localhost/mqtt"}, SourceID: "hub"},
		"TLS":                  {Broker: mqtt.Options{BrokerURL: "mqtt://localhost", TLS: &tls.Config{}}, SourceID: "hub"},
	} {
		if _, err := dynsec.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
