// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// fixture is a hub, a cluster and a running agent between them.
type fixture struct {
	*testing.T
	hub     *workfake.Clientset
	works   workv1client.ManifestWorkInterface
	cluster *memcluster.Cluster
	events  chan agent.Event
}

// withAgent runs a test in a bubble of its own time, in which [fixture.settle] waits until all is done.
func withAgent(t *testing.T, test func(f fixture)) {
	synctest.Test(t, func(t *testing.T) {
		hub := fakework.New()
		f := fixture{T: t, hub: hub, works: hub.WorkV1().ManifestWorks("cluster1"), cluster: memcluster.New(nil), events: make(chan agent.Event, 100)}
		a, err := agent.New(agent.Options{ClusterName: "cluster1", Works: hub, Cluster: f.cluster, Observe: func(e agent.Event) { f.events <- e }})
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

// live returns an object of the cluster, nil if there is none.
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

// existing puts an object into the default namespace that no work has brought.
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

// conditions puts conditions into lines without their times.
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

func TestApplyAndReport(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("w", namespace, configMap)
		w := f.work("w")
		if diff := cmp.Diff([]string{workv1.ManifestWorkFinalizer}, w.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		want := []string{
			"Applied=True AppliedManifestWorkComplete gen 1: Apply manifest work complete",
			"Available=True ResourcesAvailable gen 1: All resources are available",
		}
		if diff := cmp.Diff(want, conditions(w.Status.Conditions)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		metas := []workv1.ManifestResourceMeta{
			{Ordinal: 0, Version: "v1", Kind: "Namespace", Resource: "namespaces", Name: "demo"},
			{Ordinal: 1, Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: "a"},
		}
		for i, m := range w.Status.ResourceStatus.Manifests {
			if diff := cmp.Diff(metas[i], m.ResourceMeta); diff != "" {
				t.Errorf("manifest %d (-want +got):\n%s", i, diff)
			}
			if !meta.IsStatusConditionTrue(m.Conditions, "Applied") || !meta.IsStatusConditionTrue(m.Conditions, "Available") {
				t.Errorf("manifest %d: %v", i, conditions(m.Conditions))
			}
		}
		if got := f.live(configMap); got == nil || got.GetAnnotations()[agent.CreatedBy] != "w" {
			t.Errorf("in the cluster: %v", got)
		}
		if e := <-f.events; e != (agent.Event{Work: "w", Generation: 1, Objects: 2}) {
			t.Errorf("observed %+v", e)
		}
	})
}

func TestRetryUntilNamespaceIsThere(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("later", inside)
		w := f.work("later")
		applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
		if applied == nil || applied.Status != metav1.ConditionFalse || !strings.Contains(applied.Message, `namespaces "demo" not found`) {
			t.Fatalf("Applied is %v", applied)
		}
		if meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkAvailable) {
			t.Error("Available, but the object is not there")
		}
		f.create("first", namespace)
		<-time.After(agent.DefaultRetryAtMost) // the bubble's time
		f.settle()
		if w := f.work("later"); !meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied) {
			t.Errorf("not applied after its namespace came: %v", conditions(w.Status.Conditions))
		}
	})
}

func TestOneBadManifestDoesNotStopTheOthers(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("w", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: x}}", configMap)
		if f.live(configMap) == nil {
			t.Error("the second manifest was not applied")
		}
		w := f.work("w")
		want := []string{
			`Applied=False AppliedManifestWorkFailed gen 1: Failed to apply manifest work: Widget "x": no matches for kind "Widget" in version "example.com/v1"`,
			"Available=False ResourcesNotAvailable gen 1: 1 of 2 resources are available",
		}
		if diff := cmp.Diff(want, conditions(w.Status.Conditions)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if e := <-f.events; e.Err == nil {
			t.Errorf("observed %+v without an error", e)
		}
	})
}

func TestUpdateChangesAndPrunes(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.existing(strings.Replace(configMap, "name: a", "name: mine", 1))
		f.create("w", namespace, configMap, strings.Replace(configMap, "name: a", "name: mine", 1))
		f.update("w", func(s *workv1.ManifestWorkSpec) {
			s.Workload.Manifests = raw(t, strings.Replace(namespace, "name: demo", "name: demo, labels: {new: label}", 1))
		})
		if got := f.live(namespace); got == nil || got.GetLabels()["new"] != "label" {
			t.Errorf("the changed object is %v", got)
		}
		if f.live(configMap) != nil {
			t.Error("an object that the update left out is still there")
		}
		if f.live(strings.Replace(configMap, "name: a", "name: mine", 1)) == nil {
			t.Error("an object that was there before the work was deleted")
		}
		w := f.work("w")
		if applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); applied.ObservedGeneration != 2 || len(w.Status.ResourceStatus.Manifests) != 1 {
			t.Errorf("status after the update: %+v", w.Status)
		}
	})
}

func TestDelete(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.existing(strings.Replace(configMap, "k: v", "mine: v", 1))
		f.create("w", namespace, inside, configMap)
		f.delete("w")
		if _, err := f.works.Get(t.Context(), "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the work is still there: %v", err)
		}
		if f.live(namespace) != nil || f.live(inside) != nil {
			t.Error("objects of the work are still there")
		}
		if f.live(configMap) == nil {
			t.Error("an object that was there before the work was deleted with it")
		}
		<-f.events
		if e := <-f.events; e != (agent.Event{Work: "w", Generation: 2, Deleted: true, Objects: 2}) {
			t.Errorf("observed %+v", e)
		}
	})
}

func TestDeleteOption(t *testing.T) {
	for _, tt := range []struct {
		reason string
		option workv1.DeleteOption
		stays  bool
	}{
		{"everything is orphaned", workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}, true},
		{"this one is orphaned", workv1.DeleteOption{
			PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
			SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "default", Name: "a"}}},
		}, true},
		{"nothing is orphaned", workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			withAgent(t, func(f fixture) {
				f.create("w", configMap)
				f.update("w", func(s *workv1.ManifestWorkSpec) { s.DeleteOption = &tt.option })
				f.delete("w")
				if stays := f.live(configMap) != nil; stays != tt.stays {
					t.Errorf("the object stays: %v, want %v", stays, tt.stays)
				}
			})
		})
	}
}
