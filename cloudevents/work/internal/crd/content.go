// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"
)

// Member converts the JSON of spec or status to the API server's form, with defaults, and returns
// its validation errors.
func Member(member string, data []byte) ([]byte, field.ErrorList) {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath(member), field.OmitValueType{}, err.Error())}
	}
	s := property(Schema(), member)
	Prune(value, s, member)
	dropNulls(value, s)
	defaults(value, s)
	errs := Validate(member, value)
	out, err := json.Marshal(value)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath(member), err)}
	}
	return out, errs
}

// Foreign returns the API server's errors for the JSON of a member if the object has another kind.
// The API server then does not prune it or set defaults. It checks only the structure of a spec,
// since the constraints of the other kind are unknown. A status replaces that of the existing
// object, so its constraints apply.
func Foreign(member string, data []byte) field.ErrorList {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
		return nil // the decoder returns the error
	}
	return ForeignValue(member, value)
}

// ForeignValue is [Foreign] for a decoded member.
func ForeignValue(member string, value any) field.ErrorList {
	if member == Status {
		return Validate(member, value)
	}
	return withStructure(field.NewPath(member), value, property(Schema(), member), nil)
}

// Unknown returns the paths of members of an object, in JSON, that are not in the schema.
func Unknown(data []byte) ([]string, error) {
	var obj map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		return nil, err
	}
	dropNulls(obj, Schema())
	return Prune(obj, Schema(), ""), nil
}

// Unstructured converts a typed object. It omits empty structs that Go's encoder writes and an API
// server would not have, so that no manager owns them.
func Unstructured(obj *workv1.ManifestWork) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &out); err != nil {
		return nil, err
	}
	// An empty workload that no manager owns is from a typed client.
	if len(obj.ManagedFields) > 0 && len(obj.Spec.Workload.Manifests) == 0 && !managesWorkload(obj) {
		withoutEmpty(out, "spec", "workload")
	}
	withoutEmpty(out, "status", "resourceStatus")
	if status, ok := out["status"].(map[string]any); ok && len(status) == 0 {
		delete(out, "status")
	}
	u := &unstructured.Unstructured{Object: out}
	u.SetGroupVersionKind(gvk)
	shapeContent(out) // the metadata has its form already
	return u, nil
}

// managesWorkload reports whether a manager owns the workload, which is then kept even if empty.
func managesWorkload(obj *workv1.ManifestWork) bool {
	for i := range obj.ManagedFields {
		var fields struct {
			Spec struct {
				Workload json.RawMessage `json:"f:workload"`
			} `json:"f:spec"`
		}
		f := obj.ManagedFields[i].FieldsV1
		if f != nil && json.Unmarshal(f.GetRawBytes(), &fields) == nil && fields.Spec.Workload != nil {
			return true
		}
	}
	return false
}

func withoutEmpty(obj map[string]any, member, child string) {
	parent, _ := obj[member].(map[string]any)
	if m, ok := parent[child].(map[string]any); ok && len(m) == 0 {
		delete(parent, child)
	}
}

// Typed converts an object back, in the form that the API server stores. Manifests that equal those
// of the current object keep their bytes: another encoding is no change.
func Typed(u *unstructured.Unstructured, current *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if _, err := shape(u.Object); err != nil {
		return nil, fmt.Errorf("not a ManifestWork: %w", err)
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	out := &workv1.ManifestWork{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, out); err != nil {
		return nil, fmt.Errorf("not a ManifestWork: %w", err)
	}
	if current == nil {
		return out, nil
	}
	manifests, old := out.Spec.Workload.Manifests, current.Spec.Workload.Manifests
	for i := range min(len(manifests), len(old)) {
		if bytes.Equal(manifests[i].Raw, old[i].Raw) || bytes.Equal(manifests[i].Raw, reencoded(old[i].Raw)) {
			manifests[i].Raw = old[i].Raw
		}
	}
	return out, nil
}

// reencoded returns a manifest in the form after a merge without changes: members sorted, 1.0 as 1,
// and no unknown members in its metadata.
func reencoded(raw []byte) []byte {
	var value any
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &value) != nil {
		return nil
	}
	if manifest, ok := value.(map[string]any); ok {
		_ = shapeMetadata(manifest) // as in shape
	}
	out, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return out
}
