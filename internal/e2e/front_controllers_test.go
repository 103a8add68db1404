// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// worksScheme has the types of Kubernetes and of works.
var worksScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(workv1.Install(s))
	return s
}()

const (
	splitFinalizer = "example.com/split"   // on config maps
	splitApplied   = "example.com/applied" // annotation of config maps, and the name of the index
	splitKey       = "example.com/key"     // label of works
	splitOwner     = "owner"               // index of works
)

// splitter is a hub controller. Each config map owns one work for each of its keys. The config map
// has the keys with applied works in an annotation.
type splitter struct{ hub, works client.Client }

// Reconcile creates, updates and deletes the works of a config map.
func (s *splitter) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var owner corev1.ConfigMap
	if err := s.hub.Get(ctx, r.NamespacedName, &owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := client.MergeFromWithOptions(owner.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if owner.DeletionTimestamp == nil && controllerutil.AddFinalizer(&owner, splitFinalizer) {
		return ctrl.Result{}, s.hub.Patch(ctx, &owner, before)
	}
	left, err := s.deleteSurplus(ctx, &owner)
	if err != nil {
		return ctrl.Result{}, err
	}
	if owner.DeletionTimestamp != nil {
		if left == 0 && controllerutil.RemoveFinalizer(&owner, splitFinalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(s.hub.Patch(ctx, &owner, before))
		}
		return ctrl.Result{}, nil
	}
	var applied []string
	for key := range owner.Data {
		done, err := s.apply(ctx, &owner, key)
		if err != nil {
			return ctrl.Result{}, err
		}
		if done {
			applied = append(applied, key+"="+owner.Data[key])
		}
	}
	slices.Sort(applied)
	metav1.SetMetaDataAnnotation(&owner.ObjectMeta, splitApplied, strings.Join(applied, " "))
	return ctrl.Result{}, s.hub.Patch(ctx, &owner, before)
}

// deleteSurplus deletes the works of the owner that it has no key for. It returns their number.
func (s *splitter) deleteSurplus(ctx context.Context, owner *corev1.ConfigMap) (left int, err error) {
	var owned workv1.ManifestWorkList
	if err := s.works.List(ctx, &owned, client.InNamespace(owner.Namespace),
		client.MatchingFields{splitOwner: owner.Name}, client.HasLabels{splitKey}); err != nil {
		return 0, err
	}
	for i := range owned.Items {
		w := &owned.Items[i]
		if _, ok := owner.Data[w.Labels[splitKey]]; ok && owner.DeletionTimestamp == nil {
			continue
		}
		left++
		if w.DeletionTimestamp == nil {
			err = errors.Join(err, client.IgnoreNotFound(s.works.Delete(ctx, w, client.Preconditions{UID: &w.UID})))
		}
	}
	return left, err
}

// apply creates or updates the work of a key. It reports whether the agent has applied the work.
func (s *splitter) apply(ctx context.Context, owner *corev1.ConfigMap, key string) (applied bool, err error) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name + "-" + key}}
	if _, err := controllerutil.CreateOrPatch(ctx, s.works, w, func() error {
		w.Spec = spec(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"%s-%s"},`+
			`"data":{"value":%q}}`, owner.Namespace, w.Name, owner.Data[key]))
		metav1.SetMetaDataLabel(&w.ObjectMeta, splitKey, key)
		return controllerutil.SetControllerReference(owner, w, s.works.Scheme())
	}); err != nil {
		return false, err
	}
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation, nil
}

// addSplitter adds the controller to a manager. The cluster with the works may be the manager.
func addSplitter(ctx context.Context, mgr ctrl.Manager, works cluster.Cluster) error {
	err := works.GetFieldIndexer().IndexField(ctx, &workv1.ManifestWork{}, splitOwner, func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return []string{owner.Name}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("splitter").For(&corev1.ConfigMap{}, builder.WithPredicates(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() != "kube-root-ca.crt" })))
	if works == mgr {
		b.Owns(&workv1.ManifestWork{})
	} else {
		b.WatchesRawSource(source.Kind(works.GetCache(), &workv1.ManifestWork{},
			handler.TypedEnqueueRequestForOwner[*workv1.ManifestWork](mgr.GetScheme(), mgr.GetRESTMapper(),
				&corev1.ConfigMap{}, handler.OnlyControllerOwner()),
			predicate.TypedResourceVersionChangedPredicate[*workv1.ManifestWork]{}))
	}
	return b.Complete(&splitter{hub: mgr.GetClient(), works: works.GetClient()})
}

// applier is the work controller of a managed cluster. It applies the manifests of works, and deletes
// their objects before the end of the work.
type applier struct{ works, cluster client.Client }

// Reconcile applies a work and reports its status.
func (a *applier) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var w workv1.ManifestWork
	if err := a.works.Get(ctx, r.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.DeletionTimestamp == nil && controllerutil.AddFinalizer(&w, workv1.ManifestWorkFinalizer) {
		if err := a.works.Update(ctx, &w); err != nil {
			return ctrl.Result{}, err
		}
	}
	for _, m := range w.Spec.Workload.Manifests {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(m.Raw); err != nil {
			return ctrl.Result{}, err
		}
		var err error
		if w.DeletionTimestamp != nil {
			err = client.IgnoreNotFound(a.cluster.Delete(ctx, obj))
		} else {
			err = a.cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.ForceOwnership)
		}
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	if w.DeletionTimestamp != nil {
		if !controllerutil.RemoveFinalizer(&w, workv1.ManifestWorkFinalizer) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(a.works.Update(ctx, &w))
	}
	before := client.MergeFromWithOptions(w.DeepCopy(), client.MergeFromWithOptimisticLock{})
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AllApplied", ObservedGeneration: w.Generation,
	})
	return ctrl.Result{}, client.IgnoreNotFound(a.works.Status().Patch(ctx, &w, before))
}

// addApplier adds the controller to a manager for the works. Its own writes do not change the
// generation, so it ignores them.
func addApplier(mgr ctrl.Manager, spoke *rest.Config) error {
	onCluster, err := client.New(spoke, client.Options{Scheme: worksScheme})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("applier").
		For(&workv1.ManifestWork{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&applier{works: mgr.GetClient(), cluster: client.WithFieldOwner(onCluster, "applier")})
}

// managerOptions are those of all managers of the tests: many run in one process.
func managerOptions(namespaces ...string) ctrl.Options {
	o := ctrl.Options{
		Scheme:     worksScheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	if len(namespaces) > 0 {
		o.Cache.DefaultNamespaces = map[string]cache.Config{}
	}
	for _, ns := range namespaces {
		o.Cache.DefaultNamespaces[ns] = cache.Config{}
	}
	return o
}
