// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads the manifests of a ManifestWork: their objects, and the configuration of
// the work for each of them. An invalid manifest does not stop the others: its error is in the
// manifest.
package manifest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/internal/jsontext"
)

// Kinds maps the kinds of a cluster to resources. If the cluster does not have a kind, the error is
// a no match error of package meta.
type Kinds interface {
	Mapping(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error)
}

// Manifest is one manifest of a work.
type Manifest struct {
	// Ordinal is the index in the work.
	Ordinal int
	// Object is nil if the manifest could not be decoded.
	Object *unstructured.Unstructured
	// Key is the identity of the object, as far as it is known.
	Key appliedwork.Key
	// Resource has an empty Resource field if the cluster does not have the kind.
	Resource schema.GroupVersionResource
	// Served is whether the cluster has the kind now. If it does not and Resource is known, a CRD
	// in the same work defines the kind.
	Served     bool
	Namespaced bool
	// Config is the configuration of the work for the manifest.
	Config Config
	// Err is why the manifest cannot be applied.
	Err error
}

// MaxMemory limits the decoded manifests of one work, in bytes, as an estimate. All of them are in
// memory while the work is served.
const MaxMemory = 192 << 20

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Memory returns an estimate of the memory of the decoded manifests of a work, in bytes, at most
// [MaxMemory]. Manifests that [Read] refuses do not count.
func Memory(w *workv1.ManifestWork) (size int) {
	for i := range w.Spec.Workload.Manifests {
		n, err := jsontext.Memory(w.Spec.Workload.Manifests[i].Raw)
		if err == nil && n <= MaxMemory-size {
			size += n
		}
	}
	return size
}

// Read returns the manifests of a work, in their order. Their rules use the budget of ctx.
func Read(ctx context.Context, w *workv1.ManifestWork, kinds Kinds) []Manifest {
	manifests := make([]Manifest, len(w.Spec.Workload.Manifests))
	announced := map[schema.GroupVersionKind]*meta.RESTMapping{}
	left := MaxMemory
	for i := range manifests {
		m := &manifests[i]
		m.Ordinal = i
		var size int
		m.Object, size, m.Err = decode(w.Spec.Workload.Manifests[i].Raw, left)
		left -= size
		if m.Object == nil {
			continue
		}
		m.Key, m.Err = appliedwork.Identify(m.Object)
		if m.Object.GroupVersionKind().GroupKind() == crdKind {
			announce(m.Object, announced)
		}
	}
	configs, rules := NewConfigs(w.Spec.ManifestConfigs), guard.BudgetFrom(ctx)
	tooMany := configs.tooMany(len(manifests))
	first := map[appliedwork.Key]int{}
	for i := range manifests {
		m := &manifests[i]
		if m.Object == nil {
			continue
		}
		m.locate(ctx, kinds, announced)
		switch {
		case tooMany != nil:
			m.fail(tooMany)
		case m.Resource.Resource != "":
			m.Config = configs.For(m.identifier(), rules)
		}
		if before, again := first[m.Key]; again && m.Key.Name != "" {
			m.fail(fmt.Errorf("same object as manifest %d: remove one of the two", before))
			continue
		}
		first[m.Key] = i
	}
	return manifests
}

// Locate looks up a missing kind again, because its CRD may have been applied since.
func (m *Manifest) Locate(ctx context.Context, kinds Kinds) {
	if m.Object != nil && !m.Served && m.Key.Kind != "" {
		if mapping, err := kinds.Mapping(ctx, m.Object.GroupVersionKind()); err == nil {
			m.place(mapping, true)
		}
	}
}

// Identified reports whether the object can be read: its name and namespace are known.
func (m *Manifest) Identified() bool {
	return m.Object != nil && m.Key.Name != "" && (m.Key.Namespace != "" || !m.Namespaced)
}

// Meta returns the reference to the manifest for the status.
func (m *Manifest) Meta() workv1.ManifestResourceMeta {
	r := workv1.ManifestResourceMeta{Ordinal: int32(m.Ordinal), Resource: m.Resource.Resource}
	if m.Object != nil {
		gvk := m.Object.GroupVersionKind()
		r.Group, r.Version, r.Kind = gvk.Group, gvk.Version, gvk.Kind
		r.Namespace, r.Name = m.Object.GetNamespace(), m.Object.GetName()
	}
	return r
}

// Strategy returns the update strategy. The default is Update.
func (m *Manifest) Strategy() workv1.UpdateStrategyType {
	if s := m.Config.UpdateStrategy; s != nil && s.Type != "" {
		return s.Type
	}
	return workv1.UpdateStrategyTypeUpdate
}

func (m *Manifest) identifier() workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{
		Group: m.Resource.Group, Resource: m.Resource.Resource, Namespace: m.Key.Namespace, Name: m.Key.Name,
	}
}

// fail records an error, unless there is an earlier one.
func (m *Manifest) fail(err error) {
	if m.Err == nil {
		m.Err = err
	}
}

// decode decodes an object, if it needs no more than left bytes of memory. It returns an estimate of
// the bytes used. The JSON comes from the hub and may be any text with braces.
func decode(raw []byte, left int) (obj *unstructured.Unstructured, size int, err error) {
	if len(raw) == 0 {
		return nil, 0, errors.New("empty manifest: write an object with apiVersion, kind and metadata.name")
	}
	size, err = jsontext.Memory(raw)
	if err != nil {
		return nil, 0, fmt.Errorf("not decoded: %w: make the manifest simpler", err)
	}
	if size > left {
		return nil, 0, fmt.Errorf("not decoded: all manifests of the work would take more than %d bytes of memory "+
			"together: split the work", MaxMemory)
	}
	obj = &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		return nil, 0, fmt.Errorf("not an object of the Kubernetes API: %w", err)
	}
	return obj, size, nil
}

// locate finds the resource. Kinds of the cluster take precedence over CRDs of the work.
func (m *Manifest) locate(ctx context.Context, kinds Kinds, announced map[schema.GroupVersionKind]*meta.RESTMapping) {
	gvk := m.Object.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return
	}
	mapping, err := kinds.Mapping(ctx, gvk)
	switch {
	case err == nil:
		m.place(mapping, true)
	case !meta.IsNoMatchError(err):
		m.fail(fmt.Errorf("look up the kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err))
	case announced[gvk] != nil:
		m.place(announced[gvk], false)
	default:
		m.Resource = gvk.GroupVersion().WithResource("")
		m.fail(fmt.Errorf("the cluster does not have the kind %s of %s: install its definition, or correct "+
			"apiVersion and kind", gvk.Kind, gvk.GroupVersion()))
	}
}

// place sets resource and scope. The namespace of a cluster-scoped object is ignored, as in
// kubectl.
func (m *Manifest) place(mapping *meta.RESTMapping, served bool) {
	m.Resource, m.Served = mapping.Resource, served
	m.Namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case !m.Namespaced:
		m.Object.SetNamespace("")
		m.Key.Namespace = ""
	case m.Key.Namespace == "":
		m.fail(fmt.Errorf("kind %s is namespaced: set metadata.namespace", m.Key.Kind))
	}
}

// announce adds the kinds that a CRD defines.
func announce(crd *unstructured.Unstructured, to map[schema.GroupVersionKind]*meta.RESTMapping) {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, path...) // the API server rejects a CRD without it
		return s
	}
	scope := meta.RESTScopeRoot
	if text("spec", "scope") == "Namespaced" {
		scope = meta.RESTScopeNamespace
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); served {
			gv := schema.GroupVersion{Group: text("spec", "group"), Version: name}
			to[gv.WithKind(text("spec", "names", "kind"))] = &meta.RESTMapping{
				Resource: gv.WithResource(text("spec", "names", "plural")), Scope: scope,
			}
		}
	}
}
