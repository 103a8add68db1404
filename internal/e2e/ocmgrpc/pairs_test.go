// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const cluster = "cluster1"

// managed is a cluster in memory, for an agent of this SDK.
type managed struct{ *agenttest.Cluster }

// Values returns the value of each ConfigMap, by name.
func (m managed) Values() (map[string]string, error) {
	values := map[string]string{}
	for object, data := range m.Objects() {
		var fields map[string]string
		if err := json.Unmarshal([]byte(data), &fields); err != nil {
			return nil, err
		}
		values[strings.TrimPrefix(object, "ConfigMap "+ocmgrpc.Namespace+"/")] = fields["value"]
	}
	return values, nil
}

// ourAgent is an agent of this SDK in the process of the test.
type ourAgent struct{ Kill func() }

// startOurs starts an agent of this SDK, and waits until it is connected to a server. It keeps its
// works in a file, or with "" only in memory.
func startOurs(
	t *testing.T, addr string, c ocmgrpc.Credentials, m managed, file string, sources ...string,
) ourAgent {
	t.Helper()
	return startWith(t, grpc.Options{Address: addr,
		CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, TokenFile: c.TokenFile}, m, file, sources...)
}

func startWith(t *testing.T, o grpc.Options, m managed, file string, sources ...string) ourAgent {
	t.Helper()
	transport, err := grpc.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, transport, m, file, sources...)
}

func startOn(t *testing.T, transport cloudevents.Transport, m managed, file string, sources ...string) ourAgent {
	t.Helper()
	options := work.AgentOptions{
		ClusterName: cluster, Sources: sources, Profile: codec.ManifestBundle, DrainTimeout: -1,
	}
	stopped := func() {}
	if file != "" {
		store, err := boltstore.Open(file, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		options.Store = store
		stopped = func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	agent, err := work.NewAgent(transport, options)
	if err != nil {
		t.Fatal(err)
	}
	stop := e2etest.Background(t, func(ctx context.Context) error {
		defer stopped()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return agent.Start(ctx) })
		group.Go(func() error { return agenttest.Run(ctx, m.Cluster, agent.Clientset(), cluster) })
		return group.Wait()
	})
	// OCM's source publishes a work before it lists it, so an agent that connects meanwhile misses it.
	e2etest.Eventually(t, "the agent connects", agent.Healthy)
	return ourAgent{stop}
}

// TestAgentOnOCMServer runs examples/agent on OCM's real server, as processes that are killed.
func TestAgentOnOCMServer(t *testing.T) {
	e2etest.Prepare("agent", true)
	hub := ocmgrpc.StartHub(t, cluster)
	server := hub.StartServer()
	for _, c := range []struct {
		name        string
		credentials ocmgrpc.Credentials
		flags       []string
	}{
		{"certificate", ocmgrpc.AgentCredentials(t, hub.CA, cluster),
			[]string{"--store=" + filepath.Join(t.TempDir(), "works.db")}},
		// If such an agent is killed before its first report of a work, OCM's server does not wait for it
		// to delete the work, and does not report the deletion.
		{"token, without a store", hub.TokenCredentials(cluster), []string{"--eviction-grace=5s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			managed := ocmgrpc.StartManaged(t)
			steps := ocmgrpc.Steps{
				Works: hub.Works(cluster), Managed: managed, Server: server,
				Start: func() *daemon.Daemon {
					return ocmgrpc.StartSpokewireAgent(t, server.Addr(), "kube", cluster, c.credentials, managed, c.flags...)
				},
			}
			steps.Run(t)
			steps.Chaos(t, 300)
		})
	}
}

// TestWorkRemovedWithoutAgent removes a work from OCM's hub by force while the agent of this SDK is
// away. OCM's server then deletes it with an event that has only its resource ID, from another
// source.
func TestWorkRemovedWithoutAgent(t *testing.T) {
	hub := ocmgrpc.StartHub(t, cluster)
	server := hub.StartServer()
	credentials := ocmgrpc.AgentCredentials(t, hub.CA, cluster)
	m, file := managed{agenttest.NewCluster()}, filepath.Join(t.TempDir(), "works.db")
	onHub := side{t, hub.Works(cluster)}
	agent := startOurs(t, server.Addr(), credentials, m, file)
	onHub.create("removed")
	onHub.create("kept")
	for _, name := range []string{"removed", "kept"} {
		onHub.eventually("the hub has a status of "+name, name, func(w *workv1.ManifestWork) bool {
			return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
		})
	}
	agent.Kill()
	onHub.delete("removed")
	onHub.patch("removed", []byte(`{"metadata":{"finalizers":null}}`))
	startOurs(t, server.Addr(), credentials, m, file)
	e2etest.Eventually(t, "the object of the removed work is deleted", func() error {
		return onlyHas(m, map[string]string{"kept": "1"})
	})
}
