// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// fleetSize is the number of clusters in the process of the test.
const fleetSize = 200

// fleet holds clusters in memory, each with an agent on the broker.
type fleet struct {
	t        *testing.T
	clusters map[string]*agenttest.Cluster
}

func newFleet(t *testing.T, broker string, size int) *fleet {
	t.Helper()
	f := &fleet{t: t, clusters: map[string]*agenttest.Cluster{}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	for n := range size {
		name, cluster := fmt.Sprintf("c%03d", n), agenttest.NewCluster()
		f.clusters[name] = cluster
		transport, err := mqtt.New(mqtt.Options{BrokerURL: broker})
		if err != nil {
			t.Fatal(err)
		}
		a, err := work.NewAgent(transport, work.AgentOptions{ClusterName: name, Sources: []string{"hub"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []func(context.Context) error{
			a.Start, func(ctx context.Context) error { return agenttest.Run(ctx, cluster, a.Clientset(), name) },
		} {
			group.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	return f
}

// have waits until each cluster has exactly the ConfigMaps that want returns for it, as a map of
// names to data.
func (f *fleet) have(what string, want func(cluster string) map[string]string) {
	f.t.Helper()
	began := time.Now()
	eventually(f.t, what, func() error {
		wrong, example := 0, ""
		for name, c := range f.clusters {
			if got := c.Objects(); !maps.Equal(got, want(name)) {
				wrong, example = wrong+1, fmt.Sprintf("%s has %v, want %v", name, got, want(name))
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%d clusters are not as they must be: %s", wrong, example)
		}
		return nil
	})
	f.t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
}

// fleetShop returns an application of two parts. The second part waits for the first.
func fleetShop(version string) string {
	text := documentHead + "kind: Application\nmetadata: {name: shop}\nspec:\n  parts:\n"
	for _, part := range []string{"base", "front"} {
		text += "  - name: " + part + "\n"
		if part == "front" {
			text += "    dependsOn: [{part: base, condition: Ready}]\n"
		}
		text += fmt.Sprintf(
			"    manifests:\n    - template: '{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: "+
				"{v: %s, c: {{ .Cluster.Name }}}}'\n", part, version)
		text += fmt.Sprintf(
			"    - template: '{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%s, namespace: shop}, data: {v: x}}'\n",
			part, version)
	}
	return text + "---\n" + documentHead +
		"kind: Placement\nmetadata: {name: all}\nspec: {applications: [shop], clusters: {selector: {}}}\n"
}

func fleetObjects(version string) func(string) map[string]string {
	return func(cluster string) map[string]string {
		out := map[string]string{}
		for _, part := range []string{"base", "front"} {
			out["ConfigMap shop/"+part] = fmt.Sprintf(`{"c":%q,"v":%q}`, cluster, version)
			out["ConfigMap shop/"+part+"-"+version] = `{"v":"x"}`
		}
		return out
	}
}

// TestFleet deploys, updates, rolls back and removes an application on 200 clusters. The hub and
// the broker are killed during each step.
func TestFleet(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	h := newHub(t, false, "--broker", broker.URL())
	f := newFleet(t, broker.URL(), fleetSize)
	h.write("clusters.yaml", clusters(slices.Sorted(maps.Keys(f.clusters))...))
	h.start()
	strike := func() {
		t.Helper()
		h.kill()
		broker.Kill()
		broker.Restart()
		h.start()
	}
	midst := func(do func()) {
		t.Helper()
		said := len(h.run.Log())
		do()
		h.awaitLog(said, "application=shop")
		strike()
	}
	midst(func() { h.write("shop.yaml", fleetShop("v1")) })
	f.have("deploy", fleetObjects("v1"))
	h.settled("shop", "Synced", fleetSize, "Healthy")
	midst(func() { h.write("shop.yaml", fleetShop("v2")) })
	f.have("update", fleetObjects("v2"))
	h.settled("shop", "Synced", fleetSize, "Healthy")
	midst(func() {
		if code, text, err := h.call(http.MethodPost, "/api/v1/applications/shop/rollback"); err != nil ||
			code != http.StatusAccepted {
			t.Fatalf("%d %s %v", code, text, err)
		}
	})
	f.have("rollback", fleetObjects("v1"))
	h.settled("shop", "Synced", fleetSize, "Healthy")
	midst(func() { h.write("shop.yaml", "") })
	f.have("tear down", func(string) map[string]string { return map[string]string{} })
	h.nothing()

	// Each object was created and changed exactly as often as the steps require.
	want := []string{
		"create base", "create base-v1", "create base-v1", "create base-v2", "create front", "create front-v1",
		"create front-v1", "create front-v2",
		"delete base", "delete base-v1", "delete base-v1", "delete base-v2", "delete front", "delete front-v1",
		"delete front-v1", "delete front-v2",
		"update base", "update base", "update front", "update front",
	}
	for name, c := range f.clusters {
		var calls []string
		for _, call := range c.Calls() {
			calls = append(calls, strings.Replace(call, "ConfigMap shop/", "", 1))
		}
		if slices.Sort(calls); !slices.Equal(calls, want) {
			t.Errorf("%s: %v, want %v", name, calls, want)
		}
		if problems := c.Problems(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
