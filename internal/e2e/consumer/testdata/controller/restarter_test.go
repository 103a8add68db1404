// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restarter_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"example.com/restarter"
)

// TestReconcile changes a ConfigMap and expects another template, and no other when nothing changes.
func TestReconcile(t *testing.T) {
	ctx := t.Context()
	shop := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Annotations: map[string]string{restarter.Annotation: "settings"},
	}}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"},
		Data: map[string]string{"color": "red"}}
	c := fake.NewClientBuilder().WithObjects(shop, settings).Build()
	r := &restarter.Reconciler{Client: c}
	reconcile := func() string {
		t.Helper()
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(shop)}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(shop), shop); err != nil {
			t.Fatal(err)
		}
		return shop.Spec.Template.Annotations[restarter.Annotation]
	}
	red := reconcile()
	if red == "" || reconcile() != red {
		t.Fatalf("first %q, then another", red)
	}
	settings.Data["color"] = "green"
	if err := c.Update(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if green := reconcile(); green == red {
		t.Error("the pods keep the old settings")
	}
}
