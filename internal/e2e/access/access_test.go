// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// notAuthorized is the MQTT reason code "not authorized".
const notAuthorized = 0x87

// topics returns all topics between a source and a cluster.
func topics(source, cluster string) map[string]string {
	pair := "/sources/" + source + "/clusters/" + cluster + "/"
	return map[string]string{
		"spec": pair + "manifests", "status": pair + "manifestsstatus", "ask": pair + "specresync", "compare": pair +
			"statusresync",
		"list": "/sources/resync/" + cluster + "/manifests", "compare all": "/sources/" + source +
			"/resync/clusters/manifestsstatus",
		"source": "/sources/" + source + "/presence", "agent": "/clusters/" + cluster + "/presence",
	}
}

// TestRooms: with the example's configuration everything works, and each client reads and writes
// only its own topics.
func TestRooms(t *testing.T) {
	h := newHouse(t)
	spy := h.dial("cluster2")
	// The broker does not check subscriptions: it checks each message.
	for _, filter := range []string{"#", "/sources/hub/clusters/cluster1/manifests", "/sources/+/clusters/+/+", "$SYS/#"} {
		if reason := spy.subscribe(filter); reason > 1 {
			t.Errorf("subscribing to %s: reason %#x", filter, reason)
		}
	}
	source, sourceLog := source(t, h.as("hub"), "hub")
	agent1, log1 := agent(t, h.as("cluster1"), "cluster1")
	agent2, log2 := agent(t, h.as("cluster2"), "cluster2")
	for i := range 3 {
		name := fmt.Sprintf("app%d", i)
		create(t, source, "cluster1", name)
		create(t, source, "cluster2", name)
		apply(t, agent1, "cluster1", name)
		apply(t, agent2, "cluster2", name)
		applied(t, source, "cluster1", name)
		applied(t, source, "cluster2", name)
		if i == 0 { // and all messages of a reconnection
			h.broker.Restart()
			spy = h.dial("cluster2")
			spy.subscribe("#")
		}
	}
	for _, log := range []*logbook{sourceLog, log1, log2} {
		if log.has("Failed to publish an event") || log.has("Refused an event") {
			t.Errorf("not everything is allowed:\n%s", log)
		}
	}

	own := topics("hub", "cluster2")
	eventually(t, "the spy hears its own cluster's works",
		func() bool { return slices.Contains(spy.heard(), own["spec"]) })
	for _, topic := range spy.heard() {
		if topic != own["spec"] && topic != own["compare"] && topic != own["compare all"] && topic != own["agent"] {
			t.Errorf("cluster2 hears %s", topic)
		}
	}
}

// TestForbidden checks which topics a client with the certificate of a cluster, or of a source, may
// publish to.
func TestForbidden(t *testing.T) {
	h := newHouse(t)
	cluster1, hub := topics("hub", "cluster1"), topics("hub", "cluster2")
	other := topics("other", "cluster2")
	for _, test := range []struct {
		user    string
		allowed []string
	}{
		{"cluster2", []string{hub["status"], hub["ask"], hub["list"], hub["agent"]}},
		{"hub", []string{hub["spec"], hub["compare"], hub["compare all"], hub["source"], cluster1["spec"],
			cluster1["compare"]}},
		// Names with a meaning in filters give no access.
		{"+", nil}, {"#", nil}, {"cluster2/manifests", nil}, {"", nil},
	} {
		t.Run(test.user, func(t *testing.T) {
			if test.user == "" {
				if reason := connectWith(h, test.user); reason == 0 {
					t.Error("a certificate without a name is let in")
				}
				return
			}
			client := h.dial(test.user)
			client.t = t
			for _, all := range []map[string]string{cluster1, hub, other} {
				for what, topic := range all {
					want := byte(notAuthorized)
					if slices.Contains(test.allowed, topic) {
						want = 0
					}
					// 0x10 is success without a subscriber.
					if reason := client.publish(topic); reason&^0x10 != want {
						t.Errorf("%s, %s: reason %#x, want %#x", what, topic, reason, want)
					}
				}
			}
		})
	}
}

// TestHostileNamesHearNothing: a certificate with a wildcard as its name does not give access to
// all topics.
func TestHostileNamesHearNothing(t *testing.T) {
	h := newHouse(t)
	spies := []*raw{h.dial("+"), h.dial("#")}
	honest := h.dial("cluster2")
	for _, client := range append(spies, honest) {
		client.subscribe("#")
		client.subscribe("/sources/hub/clusters/+/manifests")
	}
	hub, all := h.dial("hub"), topics("hub", "")["compare all"]
	hub.publish(topics("hub", "cluster1")["spec"])
	hub.publish(all)
	eventually(t, "a cluster hears what is for all", func() bool { return slices.Contains(honest.heard(), all) })
	for _, spy := range spies {
		spy.publish(all) // The broker's queued messages for the spy arrive before the response.
		if heard := spy.heard(); len(heard) != 0 {
			t.Errorf("heard %v", heard)
		}
	}
}

// TestStrangers: a connection needs a certificate of the CA for clients. Otherwise the log reports
// the problem.
func TestStrangers(t *testing.T) {
	h := newHouse(t)
	without := h.as("cluster1")
	without.CertFile, without.KeyFile = "", ""
	foreign := newHouse(t).as("cluster1")
	foreign.BrokerURL = h.broker.URL()
	for name, options := range map[string]mqtt.Options{"no certificate": without, "a certificate of another CA": foreign} {
		t.Run(name, func(t *testing.T) {
			_, log := agent(t, options, "cluster1")
			eventually(t, "the log says why", func() bool { return strings.Contains(log.String(), "certificate") })
		})
	}
}

// TestWrongName: an agent with another cluster name than its certificate logs the problem, and
// reaches nothing.
func TestWrongName(t *testing.T) {
	h := newHouse(t)
	source, _ := source(t, h.as("hub"), "hub")
	create(t, source, "cluster1", "app")
	liar, log := agent(t, h.as("cluster2"), "cluster1")
	eventually(t, "the log says what to do", func() bool {
		return log.has("Failed to publish an event", topics("", "cluster1")["list"],
			"not authorized (PUBACK 0x87): check the broker's access rules")
	})
	agent1, _ := agent(t, h.as("cluster1"), "cluster1")
	apply(t, agent1, "cluster1", "app")
	applied(t, source, "cluster1", "app")
	// It may not send requests, so it never reports an empty list.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	works, err := liar.Clientset().WorkV1().ManifestWorks("cluster1").List(ctx, metav1.ListOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an agent with the certificate of cluster2 lists %v of cluster1, %v", works, err)
	}
	var reason *mqtt.ReasonError
	if err := liar.Readyz(nil); !errors.As(err, &reason) || reason.Code != notAuthorized {
		t.Errorf("Readyz returns %v", err)
	}
}

// TestSharedSubscription shows a limit of the configuration. Mosquitto lets every client join a
// shared subscription with a known group. The client gets its share of the messages, and Mosquitto
// drops a message that the client may not read.
func TestSharedSubscription(t *testing.T) {
	h := newHouse(t)
	status, last := topics("hub", "cluster1")["status"], topics("hub", "cluster1")["list"]
	for name, test := range map[string]struct {
		group string // the thief's
		lost  bool
	}{
		"a group that nobody else knows": {"guessed", false},
		"a group that a cluster knows":   {"replicas", true},
	} {
		t.Run(name, func(t *testing.T) {
			hub, thief, cluster1 := h.dial("hub"), h.dial("cluster2"), h.dial("cluster1")
			hub.subscribe("$share/replicas//sources/hub/clusters/+/manifestsstatus")
			hub.subscribe("/sources/resync/+/manifests")
			thief.subscribe("$share/" + test.group + "//sources/hub/clusters/+/manifestsstatus")
			for range 10 {
				cluster1.publish(status)
			}
			cluster1.publish(last)
			eventually(t, "the last message", func() bool { return slices.Contains(hub.heard(), last) })
			got := len(hub.heard()) - 1 // 5 with Mosquitto 2.0.11, which loses some
			if (got < 10) != test.lost || len(thief.heard()) != 0 {
				t.Errorf("the source heard %d of 10, want some to be lost: %v; the thief %d, want 0", got, test.lost,
					len(thief.heard()))
			}
			for _, client := range []*raw{hub, thief, cluster1} {
				client.close()
			}
		})
	}
}

// TestTakenOver shows another limit: a client that knows the client ID of another client may end
// its connections. The other client connects again, and only it receives the messages for it.
func TestTakenOver(t *testing.T) {
	h := newHouse(t)
	s, _ := source(t, h.as("hub"), "hub")
	known := h.as("cluster1")
	known.ClientID, known.SessionExpiry = "cluster1-agent", time.Hour
	a, log := agent(t, known, "cluster1")
	create(t, s, "cluster1", "before")
	apply(t, a, "cluster1", "before")

	thief := h.dialAs("cluster2", "cluster1-agent")
	eventually(t, "the agent loses its connection", func() bool { return log.has("Lost the connection to the broker") })
	create(t, s, "cluster1", "after")
	apply(t, a, "cluster1", "after")
	applied(t, s, "cluster1", "after")
	for _, topic := range thief.heard() {
		if topic != topics("hub", "")["compare all"] {
			t.Errorf("the thief heard %s", topic)
		}
	}
}

// TestRevoked: a revoked certificate makes no new connection after SIGHUP. Its existing connection
// stays until the broker is restarted, and all other clients survive the restart.
func TestRevoked(t *testing.T) {
	h := newHouse(t)
	s, _ := source(t, h.as("hub"), "hub")
	id := h.ca.Issue(t, "cluster1")
	gone, log := agent(t, h.with(id), "cluster1")
	stays, _ := agent(t, h.as("cluster2"), "cluster2")
	create(t, s, "cluster1", "before")
	apply(t, gone, "cluster1", "before")

	h.ca.Revoke(t, h.folder, "clients-ca", id)
	if err := syscall.Kill(h.broker.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the list is read", func() bool { return strings.Contains(h.broker.Log(), "Reloading config") })
	_, late := agent(t, h.with(id), "cluster1")
	eventually(t, "there is no new connection", func() bool { return late.has("Failed to connect to the broker") })
	create(t, s, "cluster1", "after")
	apply(t, gone, "cluster1", "after")
	applied(t, s, "cluster1", "after")

	h.broker.Restart()
	eventually(t, "the connection is not made anew",
		func() bool { return log.has("Failed to connect to the broker", "check CertFile and KeyFile") })
	create(t, s, "cluster2", "after")
	apply(t, stays, "cluster2", "after")
	applied(t, s, "cluster2", "after")
	if err := gone.Healthy(); err == nil {
		t.Error("the certificate that was taken back is connected")
	}
}
