// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// A test suite runs the controller on an API server of envtest. The works are on a bus in memory, so
// the API server needs no CRD of ManifestWork. The test plays the agent of the cluster.
func Example_envtest() {
	var t *testing.T // of func TestGreeter(t *testing.T)
	if t != nil {
		greeterOnEnvtest(t)
	}
}

func greeterOnEnvtest(t *testing.T) {
	env := &envtest.Environment{}
	config := must(env.Start())
	bus := memory.New()
	hub := must(work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "greeter"}))
	works := must(cluster.New(must(restconfig.FromSource(hub)), func(o *cluster.Options) { o.Scheme = scheme }))
	mgr := must(ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	}))
	agent := must(work.NewAgent(bus.Transport(), work.AgentOptions{
		ClusterName: "default", Sources: []string{"greeter"},
	}))
	if err := errors.Join(mgr.Add(works), mgr.Add(hub), mgr.Add(agent), addGreeter(mgr, works)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, env.Stop()); err != nil {
			t.Error(err)
		}
	})
	if err := hub.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	testGreeter(t, must(client.New(config, client.Options{Scheme: scheme})),
		must(client.New(must(restconfig.FromAgent(agent)), client.Options{Scheme: scheme})))
}

// testGreeter creates a config map, reports that its work is applied, and waits for the annotation.
func testGreeter(t *testing.T, onHub, onCluster client.Client) {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}}
	owner.Data = map[string]string{"text": "hello"}
	if err := onHub.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(owner)
	eventually(t, func(ctx context.Context) bool {
		var w workv1.ManifestWork
		if onCluster.Get(ctx, key, &w) != nil {
			return false // the work has not arrived
		}
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AllApplied", ObservedGeneration: w.Generation,
		})
		return onCluster.Status().Update(ctx, &w) == nil
	})
	eventually(t, func(ctx context.Context) bool {
		return onHub.Get(ctx, key, owner) == nil && owner.Annotations[applied] == "hello"
	})
}

func eventually(t *testing.T, check func(context.Context) bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) { return check(ctx), nil }); err != nil {
		t.Fatal(err)
	}
}
