// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// agent applies the objects of works to its cluster.
type agent struct {
	works   workclientset.Interface
	cluster client.Client
}

func (a *agent) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	works := a.works.WorkV1().ManifestWorks(r.Namespace)
	w, err := works.Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if w.DeletionTimestamp == nil && controllerutil.AddFinalizer(w, workv1.ManifestWorkFinalizer) {
		_, err := works.Update(ctx, w, metav1.UpdateOptions{}) // the informer queues the work again
		return reconcile.Result{}, err
	}
	for _, m := range w.Spec.Workload.Manifests {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(m.Raw); err != nil {
			return reconcile.Result{}, reconcile.TerminalError(err)
		}
		if w.DeletionTimestamp != nil {
			err = client.IgnoreNotFound(a.cluster.Delete(ctx, object))
		} else {
			config := client.ApplyConfigurationFromUnstructured(object)
			err = a.cluster.Apply(ctx, config, client.FieldOwner("agent"), client.ForceOwnership)
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case w.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(w, workv1.ManifestWorkFinalizer):
		_, err = works.Update(ctx, w, metav1.UpdateOptions{}) // the agent reports that the work is gone
	case w.DeletionTimestamp == nil && meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AllApplied", ObservedGeneration: w.Generation,
	}):
		_, err = works.UpdateStatus(ctx, w, metav1.UpdateOptions{})
	}
	return reconcile.Result{}, err
}

// start connects the agent to the sources of its cluster, and starts the controller. The store keeps
// the manifests of a work that is deleted while the agent is down.
func (a *agent) start(ctx context.Context, transport cloudevents.Transport, name string, store work.Store) error {
	connection, err := work.NewAgent(transport,
		work.AgentOptions{ClusterName: name, Sources: []string{"hub"}, Store: store})
	if err != nil {
		return err
	}
	a.works = connection.Clientset()
	c, err := controller.NewUnmanaged(name, controller.Options{Reconciler: a})
	if err != nil {
		return err
	}
	informers := workinformers.NewSharedInformerFactory(a.works, 0)
	works := informers.Work().V1().ManifestWorks().Informer()
	if err := c.Watch(&source.Informer{Informer: works, Handler: &handler.EnqueueRequestForObject{}}); err != nil {
		return err
	}
	informers.Start(ctx.Done())
	go func() { utilruntime.Must(connection.Start(ctx)) }()
	go func() { utilruntime.Must(c.Start(ctx)) }()
	return nil
}

// A minimal agent applies and deletes the objects of works, and reports the result. A real program
// uses mqtt.New instead of the bus, client.New instead of the fake and boltstore.Open instead of the
// store in memory, and has no source. To prune the objects of a changed work, use package
// appliedwork.
func Example_minimalAgent() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus, cluster := memory.New(), fake.NewFakeClient()
	utilruntime.Must((&agent{cluster: cluster}).start(ctx, bus.Transport(), "cluster1", work.NewMemoryStore()))

	hub, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	utilruntime.Must(err)
	go func() { utilruntime.Must(hub.Start(ctx)) }()
	utilruntime.Must(hub.InventoryComplete(ctx))
	works := hub.Clientset().WorkV1().ManifestWorks("cluster1")
	events, err := works.Watch(ctx, metav1.ListOptions{})
	utilruntime.Must(err)
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion": "v1",
		"kind": "ConfigMap", "metadata": {"namespace": "default", "name": "greeting"}, "data": {"text": "hello"}}`)}}}
	_, err = works.Create(ctx, w, metav1.CreateOptions{})
	utilruntime.Must(err)
	for event := range events.ResultChan() {
		config := &corev1.ConfigMap{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: "default", Name: "greeting"}, config)
		switch w := event.Object.(*workv1.ManifestWork); {
		case event.Type == watch.Deleted:
			fmt.Println("deleted:", apierrors.IsNotFound(err))
			return
		case w.DeletionTimestamp == nil && meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied):
			fmt.Println("applied:", config.Data["text"])
			utilruntime.Must(works.Delete(ctx, w.Name, metav1.DeleteOptions{}))
		}
	}
	// Output:
	// applied: hello
	// deleted: true
}
