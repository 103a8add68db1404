// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestManagersNeedNoCRD runs the controllers of a test suite on an API server of envtest without the
// CRD of works. The works are on a bus in memory, as a second cluster and with one client for both.
func TestManagersNeedNoCRD(t *testing.T) {
	t.Parallel()
	server := kube.Start(t, kube.Options{})
	for _, name := range []string{"twoclusters", "oneclient"} {
		t.Run(name, func(t *testing.T) {
			bus := memory.New()
			source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
			if err != nil {
				t.Fatal(err)
			}
			agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: name, Sources: []string{"hub"}})
			if err != nil {
				t.Fatal(err)
			}
			background(t, agent.Start)
			works, err := restconfig.FromSource(source)
			if err != nil {
				t.Fatal(err)
			}
			fromAgent, err := restconfig.FromAgent(agent)
			if err != nil {
				t.Fatal(err)
			}
			run := splitRun{namespace: name, cluster: server.Config(), works: works, agent: fromAgent,
				runnables: []manager.Runnable{source, manager.RunnableFunc(source.InventoryComplete)}}
			if name == "oneclient" {
				run.works = nil
				run.cluster, run.mapper, err = restconfig.Join(server.Config(), works, apiutil.NewDynamicRESTMapper)
				if err != nil {
					t.Fatal(err)
				}
			}
			if steps := run.do(t, server.Config()); len(steps) != 3+5*(3+3+2) {
				t.Errorf("the run has %d lines: %q", len(steps), steps)
			}
		})
	}
}

// TestEachClusterMapsItsOwnKinds shows why the handler for owners needs the RESTMapper of the owner's
// cluster: the cluster with the works has no other kinds, and the hub's cluster has no works.
func TestEachClusterMapsItsOwnKinds(t *testing.T) {
	t.Parallel()
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	config, err := restconfig.FromSource(source)
	if err != nil {
		t.Fatal(err)
	}
	works, err := cluster.New(config, func(o *cluster.Options) { o.Scheme = worksScheme })
	if err != nil {
		t.Fatal(err)
	}
	hub, err := client.New(kube.Start(t, kube.Options{}).Config(), client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	workKind := schema.GroupKind{Group: workv1.GroupName, Kind: "ManifestWork"}
	for _, c := range []struct {
		name   string
		mapper meta.RESTMapper
		kind   schema.GroupKind
		known  bool
	}{
		{"works of the works' cluster", works.GetRESTMapper(), workKind, true},
		{"config maps of the works' cluster", works.GetRESTMapper(), schema.GroupKind{Kind: "ConfigMap"}, false},
		{"works of the hub's cluster", hub.RESTMapper(), workKind, false},
		{"config maps of the hub's cluster", hub.RESTMapper(), schema.GroupKind{Kind: "ConfigMap"}, true},
	} {
		if _, err := c.mapper.RESTMapping(c.kind, "v1"); (err == nil) != c.known || err != nil && !meta.IsNoMatchError(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
