// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package memcluster has clusters in memory, for trying things without a cluster. A [Cluster] is an
// object store that behaves like a Kubernetes API server for a work agent.
//
// An agent calls [Cluster.ApplyWork] and [Cluster.RemoveWork]. Objects that a work has created have
// an annotation ([CreatedBy]). The store does server-side apply with field ownership and conflicts.
// It checks that namespaces exist, and that built-in objects have no unknown or mistyped fields. It
// adds the kinds of CustomResourceDefinitions, counts resourceVersion and generation, and deletes
// the objects of a deleted namespace or definition. Deployments and similar workloads become ready
// after a moment ([Cluster.Get]), but nothing runs.
//
// It does not have validation of values and of custom resources, defaults, conversion between
// versions, finalizers, owner references, subresources and watches. Lists are applied as a whole,
// since the field types are deduced from the objects (client-go's dynamic fake cannot apply
// unstructured objects at all).
package memcluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// Cluster is one cluster in memory. Its methods may be called concurrently. The caller owns the
// returned objects.
type Cluster struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	objects  map[key]*record
	custom   map[schema.GroupVersionKind]kinds.Kind
	brought  map[string][]cluster.Identity // the objects that ApplyWork has applied, by work
	revision int64
}

// key identifies an object, independent of its version.
type key struct {
	resource        schema.GroupResource
	namespace, name string
}

// record is a stored object and the time of its last change of generation.
type record struct {
	*unstructured.Unstructured
	changed time.Time
}

// New returns a cluster with the namespaces that every cluster has. A nil clock means the clock of
// the system.
func New(c clock.PassiveClock) *Cluster {
	if c == nil {
		c = clock.RealClock{}
	}
	m := &Cluster{
		clock: c, objects: map[key]*record{}, custom: map[schema.GroupVersionKind]kinds.Kind{},
		brought: map[string][]cluster.Identity{},
	}
	namespaces, _ := kinds.BuiltIn(kinds.Namespace)
	for _, name := range protected {
		ns := &unstructured.Unstructured{}
		ns.SetGroupVersionKind(kinds.Namespace)
		ns.SetName(name)
		m.store(keyOf(namespaces, "", name), nil, ns)
	}
	return m
}

// protected are the namespaces that always exist.
var protected = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// Kind returns a built-in kind, or a kind of an applied CustomResourceDefinition. Otherwise the
// error satisfies [meta.IsNoMatchError].
func (c *Cluster) Kind(_ context.Context, gvk schema.GroupVersionKind) (kinds.Kind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.custom[gvk]; ok {
		return k, nil
	}
	if k, ok := kinds.BuiltIn(gvk); ok {
		return k, nil
	}
	return kinds.Kind{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// Get returns an object with its current simulated status, or NotFound.
func (c *Cluster) Get(_ context.Context, kind kinds.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.objects[keyOf(kind, namespace, name)]
	if !ok {
		return nil, apierrors.NewNotFound(kind.GVR().GroupResource(), name)
	}
	return c.present(r, kind.GVK.GroupVersion()), nil
}

// List returns the objects of a kind in all namespaces, sorted by namespace and name.
func (c *Cluster) List(_ context.Context, kind kinds.Kind) []*unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*unstructured.Unstructured
	for k, r := range c.objects {
		if k.resource == kind.GVR().GroupResource() {
			found = append(found, c.present(r, kind.GVK.GroupVersion()))
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return found
}

// Delete removes an object. For a namespace or a CustomResourceDefinition, it also removes all its
// objects. If a UID is given and the object has another, it returns Conflict.
func (c *Cluster) Delete(_ context.Context, kind kinds.Kind, namespace, name string, uid types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	gr := kind.GVR().GroupResource()
	k := keyOf(kind, namespace, name)
	r, ok := c.objects[k]
	if !ok {
		return apierrors.NewNotFound(gr, name)
	}
	if uid != "" && uid != r.GetUID() {
		return apierrors.NewConflict(gr, name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", uid, r.GetUID()))
	}
	if kind.GVK == kinds.Namespace && slices.Contains(protected, name) {
		return apierrors.NewForbidden(gr, name, fmt.Errorf("this namespace may not be deleted"))
	}
	delete(c.objects, k)
	switch kind.GVK {
	case kinds.Namespace:
		maps.DeleteFunc(c.objects, func(k key, _ *record) bool { return k.namespace == name })
	case kinds.CRD:
		c.forget(r.Unstructured)
	}
	return nil
}

// forget removes the kinds that a CustomResourceDefinition defines, and their objects.
func (c *Cluster) forget(crd *unstructured.Unstructured) {
	custom, _ := kinds.Defined(crd) // it was valid when it was applied
	for _, kind := range custom {
		delete(c.custom, kind.GVK)
		maps.DeleteFunc(c.objects, func(k key, _ *record) bool { return k.resource == kind.GVR().GroupResource() })
	}
}

// store replaces live, which is nil for a new object, by obj, and sets the fields of the server.
func (c *Cluster) store(k key, live *record, obj *unstructured.Unstructured) {
	c.revision++
	now := c.clock.Now()
	r := &record{Unstructured: obj, changed: now}
	if live == nil {
		obj.SetUID(uuid.NewUUID())
		obj.SetCreationTimestamp(metav1.NewTime(now.Truncate(time.Second)))
		obj.SetGeneration(1)
	} else {
		obj.SetUID(live.GetUID())
		obj.SetCreationTimestamp(live.GetCreationTimestamp())
		obj.SetGeneration(live.GetGeneration())
		r.changed = live.changed
		if !sameSpec(live.Unstructured, obj) {
			obj.SetGeneration(live.GetGeneration() + 1)
			r.changed = now
		}
	}
	obj.SetResourceVersion(strconv.FormatInt(c.revision, 10))
	c.objects[k] = r
}

func (c *Cluster) present(r *record, gv schema.GroupVersion) *unstructured.Unstructured {
	obj := r.DeepCopy()
	obj.SetAPIVersion(gv.String())
	setStatus(obj, c.clock.Since(r.changed))
	return obj
}

func keyOf(kind kinds.Kind, namespace, name string) key {
	return key{resource: kind.GVR().GroupResource(), namespace: namespace, name: name}
}
