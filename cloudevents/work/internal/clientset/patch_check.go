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

// A patch's JSON says more than the Go value it becomes: what is missing gets its default or is an error,
// what is empty stays. So what a patch changes goes through the schema before it is decoded. Manifests do not:
// they have neither defaults nor required members beyond what the typed check finds.

// completeSpec fills in the defaults of a patched spec and validates it, without its manifests unless something else is
// wrong. A patch of nothing but the workload has nothing to complete. An invalid spec is not returned: it need not
// be one in Go.
func completeSpec(doc, patch []byte, t metav1.TypeMeta) ([]byte, field.ErrorList, error) {
	const workload = "workload"
	if t != ownType {
		return nil, crd.Foreign("spec", doc), nil // which is refused in any case
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
		return all() // it has the right errors for the wrong types
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

// completeStatus is completeSpec for a status.
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

// completeObject fills in and validates the member of an object that the subresource is about. The others are not
// looked at: they do not change. An invalid one is left out.
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

// typeOf reads what kind of object a document is; one that cannot be read is none.
func typeOf(doc []byte) (t metav1.TypeMeta) {
	_ = json.Unmarshal(doc, &t) // the decoder of the whole object has the error
	return t
}

// document is an object as an API server has it stored: a status that nobody wrote is not there.
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

// ownType is what an object of this clientset is.
var ownType = metav1.TypeMeta{APIVersion: workv1.GroupName + "/v1", Kind: Kind.Kind}

// checkPatched refuses what a patch makes of an object where the API server does so before it looks at versions,
// and of its type, where it does so after that. invalid is what the schema has against the change.
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
		return nil // the rest of the object stays what it is
	}
	if next.TypeMeta == ownType {
		if !crd.ManifestsFit(&next.Spec) {
			return checkReadable(&next.Spec)
		}
		return nil
	}
	if err := precondition(current, next, o); err != nil {
		return err
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaUpdate(&next.ObjectMeta, &current.ObjectMeta, path)
	errs = append(errs, validation.ValidateObjectMeta(&next.ObjectMeta, true, validation.NameIsDNSSubdomain, path)...)
	if next.Kind != ownType.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), next.Kind, "must be "+ownType.Kind))
	}
	if next.APIVersion != ownType.APIVersion {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), next.APIVersion, "must be "+ownType.APIVersion))
	}
	return newInvalid(schema.GroupKind{Group: group.Group, Kind: next.Kind}, next.Name, append(errs, invalid...))
}

// stays refuses what a patch makes of an object's name and namespace, unless they stay.
func (w *works) stays(namespace, name, want string) error {
	switch {
	case namespace != "" && namespace != w.namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case name == "":
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s based on URL) was undeterminable: name must be provided", want))
	case name != want:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, want))
	}
	return nil
}

// checkReadable refuses patched manifests that the API server could not read.
func checkReadable(spec *workv1.ManifestWorkSpec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil // the validation says which manifest it is
	}
	if err := crd.Malformed("spec", data); err != nil {
		return invalidPatch(err.Error())
	}
	return nil
}

// checkPatch is strict field validation of a merge patch: members that occur twice, or that nobody knows.
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
		more, _ := kjson.UnmarshalStrict(head.Metadata, &metav1.ObjectMeta{}) // its type is the decoder's business
		for _, err := range more {
			errs = append(errs, fmt.Errorf("metadata: %w", err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return invalidPatch(runtime.NewStrictDecodingError(errs).Error())
}
