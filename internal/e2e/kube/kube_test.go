// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

const patience = time.Minute

// eventually waits until check returns true. The duration is not measured, because only the
// condition matters to the tests.
func eventually(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func gone(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

func work(namespace, name string) *workv1.ManifestWork {
	manifest := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hello","namespace":"default"}}`
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}},
		}},
	}
}

// TestCluster is one scenario, because a control plane is slow to start. The real types are served,
// deletion works, and a restart loses nothing.
func TestCluster(t *testing.T) {
	cluster := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
	ctx := t.Context()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	works := workclientset.NewForConfigOrDie(cluster.Config()).WorkV1().ManifestWorks("cluster1")

	version, err := core.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Major != "1" || version.Minor == "" || version.GitTreeState != "clean" {
		t.Errorf("version = %+v, want that of a release", version)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster1"}}
	if _, err := core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created, err := works.Create(ctx, work("cluster1", "first"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	cluster.RestartAPIServer()
	kept, err := works.Get(ctx, "first", metav1.GetOptions{})
	if err != nil || kept.UID != created.UID {
		t.Fatalf("after a restart: %v, %v, want the object from before", kept, err)
	}

	cluster.StartControllerManager()
	t.Run("garbage collection", func(t *testing.T) {
		dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "dependent",
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork", Name: kept.Name, UID: kept.UID,
			}},
		}}
		maps := core.CoreV1().ConfigMaps("cluster1")
		if _, err := maps.Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := works.Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the dependent of a deleted owner goes", func(ctx context.Context) (bool, error) {
			_, err := maps.Get(ctx, "dependent", metav1.GetOptions{})
			return gone(err)
		})
	})
	t.Run("namespace deletion", func(t *testing.T) {
		if _, err := works.Create(ctx, work("cluster1", "second"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := core.CoreV1().Namespaces().Delete(ctx, "cluster1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the namespace and all in it go", func(ctx context.Context) (bool, error) {
			_, err := core.CoreV1().Namespaces().Get(ctx, "cluster1", metav1.GetOptions{})
			return gone(err)
		})
	})
	t.Run("the controller manager can start again", func(*testing.T) {
		cluster.StopControllerManager()
		cluster.StartControllerManager()
	})
}

func TestUsersAndKubeconfig(t *testing.T) {
	cluster := kube.Start(t, kube.Options{APIServerFlags: map[string][]string{"max-requests-inflight": {"1234"}}})
	nobody := kubernetes.NewForConfigOrDie(cluster.User("nobody"))
	if _, err := nobody.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list as a user without rights: %v, want Forbidden", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	admin := kubernetes.NewForConfigOrDie(config)
	if _, err := admin.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list with the kubeconfig file: %v", err)
	}
	cluster.InstallCRDs(kube.ManifestWorkCRDs(t))
	works := workclientset.NewForConfigOrDie(cluster.Config()).WorkV1().ManifestWorks("default")
	if _, err := works.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list a type that was installed after the start: %v", err)
	}
}
