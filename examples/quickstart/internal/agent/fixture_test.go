// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/fakework"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/memcluster"
)

// fixture is a hub, a cluster and the running agent of the cluster.
type fixture struct {
	*testing.T
	hub     *workfake.Clientset
	works   workv1client.ManifestWorkInterface
	cluster *memcluster.Cluster
	events  chan agent.Event
}

// withAgent runs a test in a synctest bubble, in which [fixture.settle] waits until all work is
// done.
func withAgent(t *testing.T, test func(f fixture)) {
	synctest.Test(t, func(t *testing.T) {
		hub := fakework.New()
		f := fixture{T: t, hub: hub, works: hub.WorkV1().ManifestWorks("cluster1"), cluster: memcluster.New(nil),
			events: make(chan agent.Event, 100)}
		a, err := agent.New(agent.Options{ClusterName: "cluster1", Works: hub, Cluster: f.cluster,
			Observe: func(e agent.Event) { f.events <- e }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Start(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Start: %v", err)
			}
		}()
		f.settle()
		test(f)
	})
}

func (f fixture) settle() { synctest.Wait() }

func (f fixture) create(name string, texts ...string) *workv1.ManifestWork {
	f.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "cluster1"}}
	w.Spec.Workload.Manifests = raw(f.T, texts...)
	created, err := f.works.Create(f.Context(), w, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.settle()
	return created
}

func (f fixture) update(name string, change func(*workv1.ManifestWorkSpec)) {
	f.Helper()
	w := f.work(name)
	change(&w.Spec)
	if _, err := f.works.Update(f.Context(), w, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.settle()
}

func (f fixture) delete(name string) {
	f.Helper()
	if err := f.works.Delete(f.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.settle()
}

func (f fixture) work(name string) *workv1.ManifestWork {
	f.Helper()
	w, err := f.works.Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return w
}

// live returns an object of the cluster, or nil if it does not exist.
func (f fixture) live(text string) *unstructured.Unstructured {
	f.Helper()
	obj := parse(f.T, text)
	kind, err := f.cluster.Kind(f.Context(), obj.GroupVersionKind())
	if err != nil {
		f.Fatal(err)
	}
	ns := obj.GetNamespace()
	if ns == "" && kind.Namespaced {
		ns = "default"
	}
	found, err := f.cluster.Get(f.Context(), kind, ns, obj.GetName())
	if err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	return found
}

// existing creates an object in the default namespace that belongs to no work.
func (f fixture) existing(text string) {
	f.Helper()
	obj := parse(f.T, text)
	obj.SetNamespace(metav1.NamespaceDefault)
	kind, err := f.cluster.Kind(f.Context(), obj.GroupVersionKind())
	if err == nil {
		_, err = f.cluster.Apply(f.Context(), kind, obj, metav1.ApplyOptions{FieldManager: "somebody"})
	}
	if err != nil {
		f.Fatal(err)
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw(t, text)[0].Raw); err != nil {
		t.Fatal(err)
	}
	return obj
}

func raw(t *testing.T, texts ...string) []workv1.Manifest {
	t.Helper()
	var manifests []workv1.Manifest
	for _, text := range texts {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: data}})
	}
	return manifests
}

// conditions formats conditions as lines without their times.
func conditions(list []metav1.Condition) []string {
	var lines []string
	for _, c := range list {
		lines = append(lines, fmt.Sprintf("%s=%s %s gen %d: %s", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message))
	}
	return lines
}

const (
	namespace  = "{apiVersion: v1, kind: Namespace, metadata: {name: demo}}"
	inside     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: demo}, data: {k: v}}"
	configMap  = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}"
	deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2}}"
)
