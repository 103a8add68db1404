// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

// reporter is the work controller of a managed cluster. A real controller applies the manifests.
type reporter struct{ works client.Client }

// Reconcile reports that a work is applied, or ends its deletion.
func (r *reporter) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var w workv1.ManifestWork
	if err := r.works.Get(ctx, q.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.DeletionTimestamp != nil {
		controllerutil.RemoveFinalizer(&w, workv1.ManifestWorkFinalizer) // after the objects are deleted
		return ctrl.Result{}, client.IgnoreNotFound(r.works.Update(ctx, &w))
	}
	if controllerutil.AddFinalizer(&w, workv1.ManifestWorkFinalizer) { // before the objects are applied
		if err := r.works.Update(ctx, &w); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := client.MergeFrom(w.DeepCopy())
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AllApplied", ObservedGeneration: w.Generation,
	})
	return ctrl.Result{}, r.works.Status().Patch(ctx, &w, before)
}

// A manager on a managed cluster runs a work controller. The agent is started before the manager,
// because the manager waits for the first list of works.
func Example_agentManager() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := memory.New()
	agent := must(work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}}))
	go func() { utilruntime.Must(agent.Start(ctx)) }()
	mgr := must(ctrl.NewManager(must(restconfig.FromAgent(agent)), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	}))
	utilruntime.Must(ctrl.NewControllerManagedBy(mgr).
		For(&workv1.ManifestWork{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&reporter{works: mgr.GetClient()}))
	go func() { utilruntime.Must(mgr.Start(ctx)) }()

	source := must(work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"}))
	go func() { utilruntime.Must(source.Start(ctx)) }()
	onHub := must(client.NewWithWatch(must(restconfig.FromSource(source)), client.Options{Scheme: scheme}))
	utilruntime.Must(onHub.Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "greeting"},
	}))
	utilruntime.Must(source.InventoryComplete(ctx))

	events := must(onHub.Watch(ctx, &workv1.ManifestWorkList{}, client.InNamespace("cluster1")))
	defer events.Stop()
	for event := range events.ResultChan() {
		w, ok := event.Object.(*workv1.ManifestWork)
		if ok && meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied) {
			fmt.Println(w.Name, "is applied on", w.Namespace)
			break
		}
	}
	// Output: greeting is applied on cluster1
}
