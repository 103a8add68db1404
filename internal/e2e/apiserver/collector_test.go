// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestControllers runs the garbage collector and the namespace controller of
// kube-controller-manager: they delete works like any other resource.
func TestControllers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	agents := []interface{ Objects() map[string]string }{s.agent("cluster1"), s.agent("cluster2")}
	s.cluster.StartControllerManager()
	core := kubernetes.NewForConfigOrDie(s.cluster.Config()).CoreV1()
	works := workclientset.NewForConfigOrDie(s.cluster.Config())
	owner := func(name string) metav1.OwnerReference {
		t.Helper()
		o, err := core.ConfigMaps("cluster1").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		yes := true
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: o.UID, BlockOwnerDeletion: &yes}
	}
	background, foreground, orphaning := owner("background"), owner("foreground"), owner("orphaning")
	keeper := owner("keeper") // stays
	for name, owners := range map[string][]metav1.OwnerReference{
		"owned-1": {background}, "owned-2": {background}, "dependent": {foreground}, "orphan": {orphaning},
		"shared": {background, keeper}, "free": nil,
	} {
		if err := s.create(works, "cluster1", name, owners...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if err := s.create(works, "cluster2", name); err != nil {
			t.Fatal(err)
		}
	}
	applied := func(i, want int) {
		t.Helper()
		e2etest.Eventually(t, fmt.Sprintf("cluster%d has %d objects", i+1, want), func() error {
			if got := agents[i].Objects(); len(got) != want {
				return fmt.Errorf("the cluster has %v", got)
			}
			return nil
		})
	}
	applied(0, 6)
	applied(1, 2)

	for name, policy := range map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground,
		"orphaning": metav1.DeletePropagationOrphan,
	} {
		if err := core.ConfigMaps("cluster1").Delete(t.Context(), name,
			metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	remaining := []string{"free", "orphan", "shared"}
	e2etest.Eventually(t, "works of deleted owners are deleted", func() error {
		list, err := s.works("cluster1").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var names []string
		for _, w := range list.Items {
			names = append(names, w.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, remaining) {
			return fmt.Errorf("the works are %v, want %v", names, remaining)
		}
		for i, w := range list.Items {
			if w.Name == "orphan" && len(list.Items[i].OwnerReferences) > 0 {
				return fmt.Errorf("the owners of orphan are %v", w.OwnerReferences)
			}
		}
		_, err = core.ConfigMaps("cluster1").Get(t.Context(), "foreground", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the owner that waits for its dependents: %w", err)
		}
		return nil
	})
	applied(0, len(remaining))

	if err := core.Namespaces().Delete(t.Context(), "cluster2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, "the namespace is deleted with its works", func() error {
		if ns, err := core.Namespaces().Get(t.Context(), "cluster2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get: %w: %+v", err, ns.Status)
		}
		return nil
	})
	applied(1, 0)
	if list, err := s.works("cluster2").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("works of the deleted namespace: %v, %v", list, err)
	}
	if err := s.create(works, "cluster2", "late"); !apierrors.IsNotFound(err) {
		t.Errorf("create in the deleted namespace: %v, want NotFound", err)
	}
}
