// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

var listedWorks = flag.Int("load.listed", 5000,
	"how many small works TestListsAreWhole lists; the promise is for 25000")

// slowLink is the rate of a slow link in bytes per second.
const slowLink = 1 << 20

// TestListsAreWhole: over a slow link, the answer of a source takes longer than InitialSyncTimeout.
// The agent's first list has all works.
func TestListsAreWhole(t *testing.T) {
	large := strings.Repeat("v", 100<<10)
	for _, test := range []struct {
		name  string
		works int
		value string
	}{{"small works", *listedWorks, strings.Repeat("v", 500)}, {"large works", 60, large}} {
		t.Run(test.name, func(t *testing.T) {
			broker, source := startListed(t, test.works, test.value)
			for name, options := range map[string]work.AgentOptions{"named": {Sources: []string{"hub"}}, "any source": {}} {
				t.Run(name, func(t *testing.T) {
					agent := slowAgent(t, broker, options)
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
					defer cancel()
					list, err := agent.Clientset().WorkV1().ManifestWorks(cluster).List(ctx, metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("the first list came after %s with %d works of %d", time.Since(began).Round(time.Millisecond),
						len(list.Items), test.works)
					if len(list.Items) != test.works {
						t.Errorf("the first list has %d works of %d", len(list.Items), test.works)
					}
				})
			}
			if n := source.connects.Load(); n != 1 {
				t.Errorf("the source connected %d times", n)
			}
		})
	}
}

// TestListsNameMissingSources: a list, and the Get of an unknown work, wait for a named source only
// until their context ends. Their errors name the source.
func TestListsNameMissingSources(t *testing.T) {
	broker, _ := startListed(t, 60, strings.Repeat("v", 100<<10))
	works := slowAgent(t, broker,
		work.AgentOptions{Sources: []string{"hub", "absent"}}).Clientset().WorkV1().ManifestWorks(cluster)
	for verb, call := range map[string]func(context.Context) (int, error){
		"list": func(ctx context.Context) (int, error) {
			list, err := works.List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			return len(list.Items), nil
		},
		"get": func(ctx context.Context) (int, error) {
			_, err := works.Get(ctx, "unknown", metav1.GetOptions{})
			return 0, err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		n, err := call(ctx)
		cancel()
		var status apierrors.APIStatus
		switch {
		case err == nil || apierrors.IsNotFound(err):
			t.Errorf("%s returned %d works and %v while a source had not answered", verb, n, err)
		case !errors.As(err, &status) || !strings.Contains(err.Error(), "absent"):
			t.Errorf("%s: %v, want a StatusError that names the source absent", verb, err)
		default:
			t.Logf("%s: %v", verb, err)
		}
	}
}

// startListed starts a source with works for the cluster.
func startListed(t *testing.T, works int, value string) (*mosquitto.Broker, *wire) {
	t.Helper()
	broker := mosquitto.Start(t, mosquitto.Options{})
	transport := newWire(t, mqtt.Options{BrokerURL: broker.URL()})
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	start(t, source)
	parallel(t, 16, works,
		func(i int) error { return create(source.Clientset(), cluster, fmt.Sprintf("work%d", i), value) })
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	return broker, transport
}

// slowAgent starts an agent behind a slow link.
func slowAgent(t *testing.T, broker *mosquitto.Broker, options work.AgentOptions) *work.Agent {
	t.Helper()
	link := tcpproxy.Start(t, broker.Addr())
	link.Limit(slowLink)
	options.ClusterName = cluster
	agent, err := work.NewAgent(newWire(t, mqtt.Options{BrokerURL: "mqtt://" + link.Addr()}), options)
	if err != nil {
		t.Fatal(err)
	}
	start(t, agent)
	return agent
}
