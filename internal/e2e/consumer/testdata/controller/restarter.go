// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package restarter restarts the pods of a Deployment when a ConfigMap changes that they use.
package restarter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Annotation names the ConfigMap on a Deployment, and has its checksum on the pods.
const Annotation = "restarter.example.com/config"

// Reconciler keeps the checksum on the pods' template up to date.
type Reconciler struct {
	Client client.Client
}

// SetupWithManager has Reconcile called when a Deployment or a ConfigMap changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.users)).
		Complete(r)
}

// Reconcile writes the checksum, which makes the Deployment's controller replace the pods.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var deployment appsv1.Deployment
	if err := r.Client.Get(ctx, req.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name, ok := deployment.Annotations[Annotation]
	if !ok {
		return ctrl.Result{}, nil
	}
	var config corev1.ConfigMap
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: name}, &config); apierrors.IsNotFound(
		err) {
		return ctrl.Result{}, nil // it will come, and call again
	} else if err != nil {
		return ctrl.Result{}, err
	}
	sum := checksum(&config)
	if deployment.Spec.Template.Annotations[Annotation] == sum {
		return ctrl.Result{}, nil
	}
	before := deployment.DeepCopy()
	if deployment.Spec.Template.Annotations == nil {
		deployment.Spec.Template.Annotations = map[string]string{}
	}
	deployment.Spec.Template.Annotations[Annotation] = sum
	return ctrl.Result{}, r.Client.Patch(ctx, &deployment, client.MergeFrom(before))
}

// users are the Deployments that use a ConfigMap.
func (r *Reconciler) users(ctx context.Context, config client.Object) []reconcile.Request {
	var deployments appsv1.DeploymentList
	if err := r.Client.List(ctx, &deployments, client.InNamespace(config.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list deployments")
		return nil
	}
	var found []reconcile.Request
	for i := range deployments.Items {
		if d := &deployments.Items[i]; d.Annotations[Annotation] == config.GetName() {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(d)})
		}
	}
	return found
}

func checksum(config *corev1.ConfigMap) string {
	content, err := json.Marshal([]any{config.Data, config.BinaryData})
	if err != nil {
		panic(err) // maps of strings and bytes have no error
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}
