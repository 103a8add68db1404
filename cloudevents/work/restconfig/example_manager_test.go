// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

const (
	finalizer = "example.com/greeter"
	applied   = "example.com/applied" // annotation
)

// greeter is a controller. Each config map in the namespace of a cluster owns a work with the same
// name, which copies the config map to that cluster. The config map has the result in an annotation.
type greeter struct{ hub, works client.Client }

// Reconcile creates, updates or deletes the work of a config map.
func (g *greeter) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var owner corev1.ConfigMap
	if err := g.hub.Get(ctx, r.NamespacedName, &owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
	before := client.MergeFrom(owner.DeepCopy())
	if owner.DeletionTimestamp != nil {
		err := g.works.Delete(ctx, w)
		if err == nil || client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err // the agent cleans up first: an event of the work follows
		}
		controllerutil.RemoveFinalizer(&owner, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(g.hub.Patch(ctx, &owner, before))
	}
	if controllerutil.AddFinalizer(&owner, finalizer) {
		return ctrl.Result{}, g.hub.Patch(ctx, &owner, before)
	}
	_, err := controllerutil.CreateOrPatch(ctx, g.works, w, func() error {
		w.Spec.Workload.Manifests = []workv1.Manifest{copyOf(&owner)}
		return controllerutil.SetControllerReference(&owner, w, g.works.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation {
		return ctrl.Result{}, nil
	}
	metav1.SetMetaDataAnnotation(&owner.ObjectMeta, applied, owner.Data["text"])
	return ctrl.Result{}, g.hub.Patch(ctx, &owner, before)
}

// copyOf returns the manifest of a config map with the same data.
func copyOf(c *corev1.ConfigMap) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Object: &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: c.Name},
		Data:       c.Data,
	}}}
}

// addGreeter adds the controller to a manager, with the cluster of the works. The owners of works
// are on the manager's cluster, so the handler has the RESTMapper of the manager.
func addGreeter(mgr ctrl.Manager, works cluster.Cluster) error {
	owner := handler.TypedEnqueueRequestForOwner[*workv1.ManifestWork](mgr.GetScheme(), mgr.GetRESTMapper(),
		&corev1.ConfigMap{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WatchesRawSource(source.Kind(works.GetCache(), &workv1.ManifestWork{}, owner)).
		Complete(&greeter{hub: mgr.GetClient(), works: works.GetClient()})
}

// A manager has two clusters: its own, with config maps and the Lease of the leader, and the works of
// a source. Both have cached reads.
func Example_manager() {
	transport := must(mqtt.New(mqtt.Options{BrokerURL: "mqtts://broker:8883", CAFile: "ca.crt"}))
	store := must(boltstore.Open("works.db", boltstore.Options{}))
	hub := must(work.NewSource(transport, work.SourceOptions{SourceID: "greeter", Store: store}))
	works := must(cluster.New(must(restconfig.FromSource(hub)), func(o *cluster.Options) { o.Scheme = scheme }))

	mgr := must(ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, LeaderElection: true, LeaderElectionID: "greeter.example.com",
	}))
	utilruntime.Must(errors.Join(
		mgr.Add(works), // its cache starts with the cache of the manager
		mgr.Add(hub),   // starts after the election
		addGreeter(mgr, works),
	))
	fmt.Println(mgr.Start(ctrl.SetupSignalHandler()), store.Close())
}
