// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// mirror is a hub controller on controller-runtime. It copies the status that the agent of each
// work has reported into an annotation of the work. It works with any kind of clientset.
type mirror struct {
	works  workclientset.Interface
	lister worklisters.ManifestWorkLister
}

const mirrored = "example.com/applied-generation"

// Reconcile updates the annotation.
func (m *mirror) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	w, err := m.lister.ManifestWorks(r.Namespace).Get(r.Name)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	if c == nil || w.DeletionTimestamp != nil || w.Annotations[mirrored] == fmt.Sprint(c.ObservedGeneration) {
		return reconcile.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": w.ResourceVersion, // a stale cache must not overwrite
		"annotations":     map[string]string{mirrored: fmt.Sprint(c.ObservedGeneration)},
	}})
	if err != nil {
		return reconcile.Result{}, err
	}
	_, err = m.works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // the informer queues it again
	}
	return reconcile.Result{}, err
}

// runMirror runs the controller until ctx ends.
func runMirror(ctx context.Context, name string, works workclientset.Interface) error {
	factory := workinformers.NewSharedInformerFactory(works, 0)
	informer := factory.Work().V1().ManifestWorks()
	c, err := controller.NewUnmanaged(name, controller.Options{
		Reconciler: &mirror{works: works, lister: informer.Lister()},
	})
	if err != nil {
		return err
	}
	if err := c.Watch(&source.Informer{Informer: informer.Informer(),
		Handler: &handler.EnqueueRequestForObject{}}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	return c.Start(ctx)
}

// TestControllersRunUnchanged runs a hub controller (controller-runtime) and a work agent
// (informer, lister and workqueue of client-go) on the generated clientset and on ours. Only the
// constructor differs. The same is true for managers of controller-runtime and their configurations.
func TestControllersRunUnchanged(t *testing.T) {
	t.Parallel()
	spokeCluster := kube.Shared(t)
	spokeClient, err := kubernetes.NewForConfig(spokeCluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kinds := []struct {
		name     string
		hub, spk func(t *testing.T) workclientset.Interface
	}{{name: "apiserver"}, {name: "cloudevents"}}

	hubCluster := kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
	generated, err := workclientset.NewForConfig(hubCluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kinds[0].hub = func(*testing.T) workclientset.Interface { return generated }
	kinds[0].spk = kinds[0].hub
	broker := mosquitto.Start(t, mosquitto.Options{})
	kinds[1].hub = func(t *testing.T) workclientset.Interface {
		s, err := work.NewSource(transport(t, broker), work.SourceOptions{SourceID: "hub"})
		if err != nil {
			t.Fatal(err)
		}
		background(t, s.Start)
		if err := s.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.Clientset()
	}
	kinds[1].spk = func(t *testing.T) workclientset.Interface {
		a, err := work.NewAgent(transport(t, broker), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
		if err != nil {
			t.Fatal(err)
		}
		background(t, a.Start)
		return a.Clientset()
	}
	hubCluster.CreateNamespaces("cluster1")
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			onHub, onSpoke := kind.hub(t), kind.spk(t)
			stopMirror := background(t, func(ctx context.Context) error { return runMirror(ctx, kind.name, onHub) })
			stopAgent := background(t, func(ctx context.Context) error {
				return runWorkAgent(ctx, t, onSpoke, "cluster1", spokeCluster.Config())
			})
			runTheJob(t, onHub.WorkV1().ManifestWorks("cluster1"), spokeClient, kind.name)
			stopAgent()
			stopMirror()
		})
	}
	t.Run("managers", func(t *testing.T) { runManagers(t, hubCluster, spokeCluster, broker) })
}
