// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var (
	crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	policyResource = schema.GroupVersionResource{Group: "policy.example.com", Version: "v1", Resource: "policies"}
)

// crdOf returns a CRD of a namespaced kind that accepts any fields.
func crdOf(group, kind, plural string) *unstructured.Unstructured {
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[3]s.%[1]s"},
		"spec":{"group":%[1]q,"scope":"Namespaced","names":{"plural":%[3]q,"kind":%[2]q},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, group, kind, plural)
	crd := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &crd.Object); err != nil {
		panic(err)
	}
	return crd
}

// establish creates a CRD and returns when its kind is established. The end of the test deletes it.
func establish(t *testing.T, client dynamic.Interface, crd *unstructured.Unstructured) {
	t.Helper()
	crds := client.Resource(crdResource)
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { abolish(t, client, crd.GetName()) })
	for deadline := time.Now().Add(watcherLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		got, err := crds.Get(t.Context(), crd.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return
			}
		}
	}
	t.Fatalf("%s is not established", crd.GetName())
}

// abolish deletes a CRD, if it exists, and returns when it is gone.
func abolish(t *testing.T, client dynamic.Interface, name string) {
	t.Helper()
	ctx, crds := context.WithoutCancel(t.Context()), client.Resource(crdResource)
	eventually(t, name+" is gone", func() error {
		if err := crds.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

func newDynamic(t *testing.T, cluster *kube.Cluster) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// policies is the controller of the story. A policy names a Secret and a ConfigMap, and a reconcile
// renders their content.
type policies struct {
	client  *writer
	dynamic dynamic.Interface
	watcher *watcher

	mu       sync.Mutex
	rendered map[string]string
}

func (p *policies) reconcile(ctx context.Context, id dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	policy, err := p.dynamic.Resource(policyResource).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, p.watcher.RemoveWatcher(id)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	secretName, _, _ := unstructured.NestedString(policy.Object, "spec", "secret")
	mapName, _, _ := unstructured.NestedString(policy.Object, "spec", "configMap")
	if err := p.watcher.AddOrUpdateWatcher(id, secretID(id.Namespace, secretName),
		configMapID(id.Namespace, mapName)); err != nil {
		return reconcile.Result{}, err
	}
	secret, settings := "none", "none"
	if s, err := p.client.CoreV1().Secrets(id.Namespace).Get(ctx, secretName, metav1.GetOptions{}); err == nil {
		secret = string(s.Data["value"])
	} else if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	if m, err := p.client.CoreV1().ConfigMaps(id.Namespace).Get(ctx, mapName, metav1.GetOptions{}); err == nil {
		settings = m.Data["value"]
	} else if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rendered[id.Name] = secret + "+" + settings
	return reconcile.Result{}, nil
}

// eventually waits until every policy has the given content.
func (p *policies) eventually(want string, names ...string) {
	p.watcher.t.Helper()
	p.watcher.eventually(want, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, name := range names {
			if got := p.rendered[name]; got != want {
				return fmt.Errorf("%s says %q", name, got)
			}
		}
		return nil
	})
}

// TestWatcherStory: policies follow the Secret and the ConfigMap that they name through create,
// update, delete and re-create of each. Each object has one watch, until the last policy is
// deleted.
func TestWatcherStory(t *testing.T) {
	cluster := kube.Shared(t)
	client, dyn := newWriter(t, cluster), newDynamic(t, cluster)
	establish(t, dyn, crdOf("policy.example.com", "Policy", "policies"))
	ns := client.namespace("story")
	own := client.singleWatches("configmaps") // the API server itself watches one
	names := []string{"p1", "p2", "p3"}
	for _, name := range names {
		policy := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy.example.com/v1", "kind": "Policy", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"secret": "password", "configMap": "settings"},
		}}
		if _, err := dyn.Resource(policyResource).Namespace(ns).Create(t.Context(), policy,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := &policies{client: client, dynamic: dyn, rendered: map[string]string{}}
	p.watcher = startWatcher(t, cluster.Config(), dynamicwatcher.Options{}, nil)
	p.watcher.do = p.reconcile
	for _, name := range names { // the policy's own event loop
		if _, err := p.reconcile(t.Context(), policyID(ns, name)); err != nil {
			t.Fatal(err)
		}
		p.watcher.synced(policyID(ns, name))
	}
	p.eventually("none+none", names...)

	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"create the secret", func() { client.setSecret(ns, "password", "1") }, "1+none"},
		{"create the config map", func() { client.setConfigMap(ns, "settings", "a") }, "1+a"},
		{"update the secret", func() { client.setSecret(ns, "password", "2") }, "2+a"},
		{"update the config map", func() { client.setConfigMap(ns, "settings", "b") }, "2+b"},
		{"delete the secret", func() { client.deleteSecret(ns, "password") }, "none+b"},
		{"delete the config map", func() { client.deleteConfigMap(ns, "settings") }, "none+none"},
		{"create the secret again", func() { client.setSecret(ns, "password", "3") }, "3+none"},
		{"create the config map again", func() { client.setConfigMap(ns, "settings", "c") }, "3+c"},
	} {
		step.do()
		t.Log(step.name)
		p.eventually(step.want, names...)
	}
	for _, name := range names { // four changes of two objects, and no others
		if got := p.watcher.count(policyID(ns, name)); got != 8 {
			t.Errorf("%s was reconciled %d times for 8 changes", name, got)
		}
	}

	if got := p.watcher.GetWatchCount(); got != 2 {
		t.Errorf("%d watches for two objects", got)
	}
	client.eventuallySingleWatches("secrets", 1)
	client.eventuallySingleWatches("configmaps", own+1)
	for i, name := range names {
		if err := p.watcher.RemoveWatcher(policyID(ns, name)); err != nil {
			t.Fatal(err)
		}
		if i < len(names)-1 {
			client.eventuallySingleWatches("secrets", 1)
		}
	}
	client.eventuallySingleWatches("secrets", 0)
	client.eventuallySingleWatches("configmaps", own)
	client.setSecret(ns, "password", "4")
	p.watcher.quiet(200 * time.Millisecond)
}

// TestWatcherJoins: a new watcher of an object that others already watch is reconciled once, unless
// it has seen the object's version.
func TestWatcherJoins(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("joins")
	version := client.setSecret(ns, "s", "1")
	w := startWatcher(t, cluster.Config(), dynamicwatcher.Options{}, nil)
	first, second, third, fourth := policyID(ns, "first"), policyID(ns, "second"), policyID(ns, "third"),
		policyID(ns, "fourth")
	w.watch(first, secretID(ns, "s"))
	w.eventuallyCount(first, 1)
	w.watch(second, secretID(ns, "s"))
	w.eventuallyCount(second, 1)
	if err := w.AddWatcherAt(third, secretID(ns, "s"), version); err != nil {
		t.Fatal(err)
	}
	w.quiet(200 * time.Millisecond)
	client.setSecret(ns, "s", "2")
	for _, id := range []dynamicwatcher.ObjectIdentifier{first, second} {
		w.eventuallyCount(id, 2)
	}
	w.eventuallyCount(third, 1)
	if err := w.AddWatcherAt(fourth, secretID(ns, "s"), version); err != nil { // it has seen the previous version
		t.Fatal(err)
	}
	w.eventuallyCount(fourth, 1)
	if got := w.last(fourth); got != dynamicwatcher.TriggerInitial {
		t.Errorf("the reconcile is for %s", got)
	}
	w.quiet(200 * time.Millisecond)
}
