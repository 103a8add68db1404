// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble07CertificatesReplaced: certificates are replaced on disk while all processes run. The
// next handshake uses the new certificates, and works are not affected. Package mqtt tests which
// certificates TLS refuses.
func TestTrouble07CertificatesReplaced(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ca := certtest.New(t)
	ca.Write(t, folder, "ca")
	ca.Issue(t, "broker").Write(t, folder, "broker")
	ca.Issue(t, "hub-of-january").Write(t, folder, "hub")
	ca.Issue(t, "agent-of-january").Write(t, folder, "agent")
	in := func(name string) string { return filepath.Join(folder, name) }
	s := newScene(t, mosquitto.Options{
		CertFile: in("broker.crt"), KeyFile: in("broker.key"), ClientCAFile: in("ca.crt"),
		Lines: []string{"use_identity_as_username true"}, // so the log has the name of each client
	})
	link := func(name string) mqtt.Options {
		return mqtt.Options{BrokerURL: "mqtts", CAFile: in("ca.crt"), CertFile: in(name + ".crt"), KeyFile: in(name + ".key")}
	}
	h := s.source(work.SourceOptions{}, link("hub"))
	a := s.agent(work.AgentOptions{}, link("agent"))
	a.apply()
	h.create("cluster1", "app", "1")
	shows(t, "the source", h.works("cluster1"), "app=1/1")

	ca.Issue(t, "hub-of-february").Write(t, folder, "hub")
	h.leave()
	h.set("cluster1", "app", "2")
	h.comeBack()
	shows(t, "the source with a new certificate", h.works("cluster1"), "app=2/2")

	// All certificates are new: CA, broker and clients. Existing connections stay until the broker
	// restarts.
	next := certtest.New(t)
	next.Write(t, folder, "ca")
	next.Issue(t, "broker").Write(t, folder, "broker")
	next.Issue(t, "hub-of-march").Write(t, folder, "hub")
	next.Issue(t, "agent-of-march").Write(t, folder, "agent")
	h.set("cluster1", "app", "3")
	shows(t, "the source before the broker's restart", h.works("cluster1"), "app=3/3")
	s.broker.Restart()
	h.set("cluster1", "app", "4")
	shows(t, "the source under a new authority", h.works("cluster1"), "app=4/4")

	for _, name := range []string{"hub-of-january", "agent-of-january", "hub-of-february", "hub-of-march",
		"agent-of-march"} {
		if !strings.Contains(s.broker.Log(), "u'"+name+"'") {
			t.Errorf("%s has not come to the broker", name)
		}
	}
}
