// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// Reconciler renders policies.
type Reconciler struct {
	client  client.Client
	reader  client.Reader // reads without the cache
	watcher dynamicwatcher.DynamicWatcher
}

// NewReconciler returns a reconciler that adds the objects of templates to the watcher.
func NewReconciler(m manager.Manager, watcher dynamicwatcher.DynamicWatcher) (*Reconciler, error) {
	if err := corev1.AddToScheme(m.GetScheme()); err != nil {
		return nil, err
	}
	return &Reconciler{client: m.GetClient(), reader: m.GetAPIReader(), watcher: watcher}, nil
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	self := dynamicwatcher.ObjectIdentifier{
		Group: Kind.Group, Version: Kind.Version, Kind: Kind.Kind, Namespace: request.Namespace, Name: request.Name,
	}
	p := New()
	if err := r.reader.Get(ctx, request.NamespacedName, p); apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.watcher.RemoveWatcher(self)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	text, _, _ := unstructured.NestedString(p.Object, "spec", "template")
	rendered, asked, failure := render(ctx, r.reader, request.Namespace, text)
	// Missing objects are watched too. If an object changed after it was read, the watcher sends a
	// trigger when it is watched.
	if err := r.watcher.AddOrUpdateWatcher(self, asked...); err != nil {
		return reconcile.Result{}, err
	}
	status := map[string]any{"rendered": rendered}
	if failure != nil {
		status = map[string]any{"error": failure.Error()} // the user must fix the template or its objects
	}
	if old, _, _ := unstructured.NestedMap(p.Object, "status"); old["rendered"] == status["rendered"] &&
		old["error"] == status["error"] {
		return reconcile.Result{}, nil
	}
	p.Object["status"] = status
	if err := r.client.Status().Update(ctx, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Wrote the status", "failed", failure != nil, "watches", r.watcher.GetWatchCount())
	return reconcile.Result{}, nil
}
