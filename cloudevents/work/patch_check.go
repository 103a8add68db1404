// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// A patch's JSON says more than the Go value it becomes: what is missing gets its default or is an error,
// what is empty stays. So what a patch changes goes through the schema before it is decoded. Manifests do not:
// they have neither defaults nor required members beyond what the typed check finds.

// complete fills in the defaults of a patched member and validates it.
func complete(name, member string, doc []byte) ([]byte, error) {
	out, errs := crd.Member(member, doc)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind, name, errs)
	}
	return out, nil
}

// completeSpec is complete for a spec, without its manifests. A patch of nothing but the workload has nothing
// to complete.
func completeSpec(name string, doc, patch []byte) ([]byte, error) {
	const workload = "workload"
	var changed, members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || json.Unmarshal(patch, &changed) != nil {
		return complete(name, "spec", doc)
	}
	var typed struct {
		Manifests []map[string]json.RawMessage `json:"manifests"`
	}
	manifests := members[workload]
	if manifests != nil && json.Unmarshal(manifests, &typed) != nil {
		return complete(name, "spec", doc) // it has the right errors for the wrong types
	}
	delete(changed, workload)
	if len(changed) == 0 {
		return doc, nil
	}
	delete(members, workload)
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	if rest, err = complete(name, "spec", rest); err != nil || manifests == nil {
		return rest, err
	}
	clear(members)
	if err := json.Unmarshal(rest, &members); err != nil {
		return nil, err
	}
	members[workload] = manifests
	return json.Marshal(members)
}

// completeObject is complete for the member of an object that the subresource is about. The others are not
// looked at: they do not change.
func (p *patcher) completeObject(name string, doc []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, patchError("", err)
	}
	var err error
	if p.sub == statusPart {
		delete(members, "spec")
		if status, ok := members["status"]; ok {
			members["status"], err = complete(name, "status", status)
		}
	} else {
		delete(members, "status")
		if spec, ok := members["spec"]; ok {
			members["spec"], err = completeSpec(name, spec, spec)
		}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(members)
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
