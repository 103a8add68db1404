// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// Whole and Status are the parts that a field manager handles: the object without its status, or
// its status.
const (
	Whole  = ""
	Status = "status"
)

// gvk is the kind of applied objects.
var gvk = schema.GroupVersionKind{Group: workv1.GroupName, Version: "v1", Kind: "ManifestWork"}

type managers struct{ whole, status *managedfields.FieldManager }

var fieldManagers = sync.OnceValues(func() (managers, error) {
	typeConverter, err := newTypeConverter()
	if err != nil {
		return managers{}, err
	}
	build := func(sub string, reset ...string) (*managedfields.FieldManager, error) {
		set := fieldpath.NewSet()
		for _, member := range reset {
			set.Insert(fieldpath.MakePathOrDie(member))
		}
		return managedfields.NewDefaultCRDFieldManager(typeConverter, Objects{}, Objects{}, Objects{}, gvk,
			gvk.GroupVersion(), sub,
			fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
				fieldpath.APIVersion(gvk.GroupVersion().String()): set,
			}))
	}
	var out managers
	if out.whole, err = build(Whole, "status"); err != nil {
		return managers{}, err
	}
	out.status, err = build(Status, "metadata", "spec")
	return out, err
})

// FieldManager returns the field manager of apimachinery, configured as in the API server for this
// CRD. Writes to a subresource do not own fields that they cannot change. It accepts and returns
// unstructured objects.
func FieldManager(sub string) (*managedfields.FieldManager, error) {
	m, err := fieldManagers()
	if err != nil {
		return nil, err
	}
	if sub == Status {
		return m.status, nil
	}
	return m.whole, nil
}

// newTypeConverter completes the CRD's schema to the form that the API server publishes.
func newTypeConverter() (managedfields.TypeConverter, error) {
	metadata := &spec.Schema{}
	data, err := yaml.YAMLToJSON(objectMeta)
	if err != nil {
		return nil, fmt.Errorf("read the schema of metadata: %w", err)
	}
	if err := json.Unmarshal(data, metadata); err != nil {
		return nil, fmt.Errorf("read the schema of metadata: %w", err)
	}
	complete := withEmbedded(Schema())
	complete.Properties["metadata"] = *spec.RefSchema(metadataRef)
	complete.Extensions = maps.Clone(complete.Extensions)
	complete.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
	})
	return managedfields.NewTypeConverter(map[string]*spec.Schema{"ManifestWork": complete, "ObjectMeta": metadata}, false)
}

// metadataRef refers to the schema of metadata. The reference is needed because a manifest may have
// members that are not in the schema, but its metadata may not.
const metadataRef = "#/components/schemas/ObjectMeta"

// withEmbedded returns a copy of a schema in which embedded resources have the members of all
// objects.
func withEmbedded(s *spec.Schema) *spec.Schema {
	if s == nil {
		return nil
	}
	out := *s
	out.Properties = make(map[string]spec.Schema, len(s.Properties))
	for name := range s.Properties {
		out.Properties[name] = *withEmbedded(property(s, name))
	}
	if of := items(s); of != nil {
		out.Items = &spec.SchemaOrArray{Schema: withEmbedded(of)}
	}
	if extension[bool](s, embedded) {
		out.Properties["apiVersion"] = *spec.StringProperty()
		out.Properties["kind"] = *spec.StringProperty()
		out.Properties["metadata"] = *spec.RefSchema(metadataRef)
		out.Required = append(slices.Clone(s.Required), "apiVersion", "kind")
	}
	return &out
}
