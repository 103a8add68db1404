// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"bytes"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// The JSON of a patch has more information than its Go value: a missing member gets its default or
// is an error, an empty member stays. So the schema checks the patched members before they are
// decoded, except manifests: they have no defaults, and the typed check finds missing members.

// completeSpec sets the defaults of a patched spec and validates it. It leaves out the manifests
// unless it finds an error elsewhere. A patch of the workload alone needs no defaults. An invalid
// spec is not returned: it may not decode to the Go type.
func completeSpec(doc, patch []byte, t metav1.TypeMeta) ([]byte, field.ErrorList, error) {
	const workload = "workload"
	if t != ownType {
		return nil, crd.Foreign("spec", doc), nil // such an object is refused in any case
	}
	all := func() ([]byte, field.ErrorList, error) {
		out, errs := crd.Member("spec", doc)
		if len(errs) == 0 {
			return out, nil, nil
		}
		if err := crd.Malformed("spec", doc); err != nil {
			return nil, nil, invalidPatch(err.Error())
		}
		return nil, errs, nil
	}
	var changed, members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || json.Unmarshal(patch, &changed) != nil {
		return all()
	}
	var typed struct {
		Manifests []map[string]json.RawMessage `json:"manifests"`
	}
	manifests := members[workload]
	if manifests != nil && json.Unmarshal(manifests, &typed) != nil {
		return all() // the schema returns the errors for wrong types
	}
	delete(changed, workload)
	if len(changed) == 0 {
		return doc, nil, nil
	}
	delete(members, workload)
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, nil, err
	}
	rest, errs := crd.Member("spec", rest)
	if len(errs) > 0 {
		return all()
	}
	if manifests == nil {
		return rest, nil, nil
	}
	clear(members)
	if err := json.Unmarshal(rest, &members); err != nil {
		return nil, nil, err
	}
	members[workload] = manifests
	out, err := json.Marshal(members)
	return out, nil, err
}

// completeStatus validates a patched status, as completeSpec does for a spec.
func completeStatus(doc []byte, t metav1.TypeMeta) ([]byte, field.ErrorList, error) {
	if t != ownType {
		if errs := crd.Foreign("status", doc); len(errs) > 0 {
			return nil, errs, nil
		}
	}
	out, errs := crd.Member("status", doc)
	if len(errs) > 0 {
		return nil, errs, nil
	}
	return out, nil, nil
}

// completeObject sets defaults in the member of an object that the subresource changes, and
// validates it. It does not check other members: they do not change. It removes an invalid member.
func (p *patcher) completeObject(doc []byte) ([]byte, field.ErrorList, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, nil, patchError("", err)
	}
	member, other := "spec", "status"
	if p.sub == StatusPart {
		member, other = other, member
	}
	delete(members, other)
	var errs field.ErrorList
	if value, ok := members[member]; ok && string(bytes.TrimSpace(value)) != "null" {
		var err error
		if p.sub == StatusPart {
			value, errs, err = completeStatus(value, typeOf(doc))
		} else {
			value, errs, err = completeSpec(value, value, typeOf(doc))
		}
		if err != nil {
			return nil, nil, err
		}
		if members[member] = value; value == nil {
			delete(members, member)
		}
	}
	out, err := json.Marshal(members)
	return out, errs, err
}

// typeOf returns the kind and apiVersion of a document, empty if it cannot be decoded.
func typeOf(doc []byte) (t metav1.TypeMeta) {
	_ = json.Unmarshal(doc, &t) // the decoder of the whole object returns the error
	return t
}

// document is an object as an API server stores it: without a status before its first write.
type document struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              *workv1.ManifestWorkSpec   `json:"spec"`
	Status            *workv1.ManifestWorkStatus `json:"status,omitempty"`
}

func stored(obj *workv1.ManifestWork) *document {
	doc := &document{TypeMeta: ownType, ObjectMeta: obj.ObjectMeta, Spec: &obj.Spec, Status: &obj.Status}
	if obj.Status.Conditions == nil && obj.Status.ResourceStatus.Manifests == nil {
		doc.Status = nil
	}
	return doc
}

// ownType is the kind and apiVersion of the objects of this clientset.
var ownType = metav1.TypeMeta{APIVersion: workv1.GroupName + "/v1", Kind: Kind.Kind}

// checkPatched refuses invalid results of a patch that the API server refuses before it checks
// versions. It also refuses a wrong type, which the API server does after that. invalid has the
// schema errors of the change.
func (w *works) checkPatched(current, next *workv1.ManifestWork, o changeOptions, invalid field.ErrorList) error {
	group, err := schema.ParseGroupVersion(next.APIVersion)
	switch {
	case next.Kind == "":
		return patchError("kind", fmt.Errorf("Object 'Kind' is missing"))
	case next.APIVersion == "":
		return apierrors.NewInternalError(fmt.Errorf("Object 'apiVersion' is missing in 'object has no apiVersion field'"))
	case err != nil:
		return patchError("apiVersion", err)
	}
	if err := w.stays(next.Namespace, next.Name, current.Name); err != nil {
		return err
	}
	if o.sub == StatusPart {
		return nil // the rest of the object does not change
	}
	if next.TypeMeta == ownType {
		if err := malformed(&next.Spec); err != nil {
			return invalidPatch(err.Error())
		}
		return nil
	}
	if err := precondition(current, next, o); err != nil {
		return err
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaUpdate(&next.ObjectMeta, &current.ObjectMeta, path)
	errs = append(errs, validation.ValidateObjectMeta(&next.ObjectMeta, true, validation.NameIsDNSSubdomain, path)...)
	errs = append(errs, typeErrors(next.TypeMeta)...)
	return newInvalid(schema.GroupKind{Group: group.Group, Kind: next.Kind}, next.Name, append(errs, invalid...))
}

// stays refuses a patch that changes the name or namespace of an object.
func (w *works) stays(namespace, name, want string) error {
	switch {
	case namespace != "" && namespace != w.namespace:
		return otherNamespace()
	case name == "":
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s based on URL) was undeterminable: name must be provided", want))
	case name != want:
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", name, want))
	}
	return nil
}

// checkPatch is the strict field validation of a merge patch: it refuses duplicate and unknown
// members.
func checkPatch(patch []byte) error {
	twice, err := kjson.UnmarshalStrict(patch, &map[string]any{})
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return checkUnknown(patch, twice)
}

func checkUnknown(doc []byte, errs []error) error {
	unknown, err := crd.Unknown(doc)
	if err != nil {
		return patchError("", err)
	}
	for _, path := range unknown {
		errs = append(errs, fmt.Errorf("unknown field %q", path))
	}
	var head struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(doc, &head); err == nil && len(head.Metadata) > 0 {
		more, _ := kjson.UnmarshalStrict(head.Metadata, &metav1.ObjectMeta{}) // the decoder checks its type
		for _, err := range more {
			errs = append(errs, fmt.Errorf("metadata: %w", err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return invalidPatch(runtime.NewStrictDecodingError(errs).Error())
}
