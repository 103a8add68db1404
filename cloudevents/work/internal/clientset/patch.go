// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
	"github.com/spokewire/sdk-go/internal/jsonpatch"
	"github.com/spokewire/sdk-go/internal/jsontext"
)

// Patch changes an object by a JSON patch, a JSON merge patch or a server-side apply, which can
// also create it. For other types of patch it returns UnsupportedMediaType.
func (w *works) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	sub, err := patchable(name, subresources)
	if err != nil {
		return nil, err
	}
	if err := w.begin(ctx, "patch", sub); err != nil {
		return nil, err
	}
	if err := w.named(ctx, "patch", name); err != nil {
		return nil, err
	}
	if err := checkPatchOptions(&opts, pt); err != nil {
		return nil, err
	}
	p := &patcher{sub: sub, strict: opts.FieldValidation == metav1.FieldValidationStrict}
	var apply change
	switch pt {
	case types.ApplyPatchType:
		return w.apply(ctx, name, data, opts, sub)
	case types.MergePatchType:
		patch, err := parseMergePatch(data)
		if err != nil {
			return nil, err
		}
		apply = func(obj *workv1.ManifestWork) (*workv1.ManifestWork, field.ErrorList, error) {
			if p.strict {
				if err := checkPatch(data); err != nil {
					return nil, nil, err
				}
			}
			return p.mergePatch(patch, obj)
		}
	case types.JSONPatchType:
		patch, err := parseJSONPatch(data)
		if err != nil {
			return nil, err
		}
		apply = func(obj *workv1.ManifestWork) (*workv1.ManifestWork, field.ErrorList, error) {
			return p.jsonPatch(patch, obj)
		}
	default:
		return nil, unsupportedPatch(pt)
	}
	o := changeOptions{sub: sub, dryRun: len(opts.DryRun) > 0, patched: true, manager: opts.FieldManager}
	return w.mutate(ctx, name, o, func(current *workv1.ManifestWork) (*workv1.ManifestWork, field.ErrorList, error) {
		next, invalid, err := apply(current)
		if err != nil {
			return nil, nil, err
		}
		if err := w.checkPatched(current, next, o, invalid); err != nil {
			return nil, nil, err
		}
		return next, invalid, Normalize(next)
	})
}

// patchable returns the part of an object that a patch changes.
func patchable(name string, subresources []string) (Subresource, error) {
	switch {
	case len(subresources) == 0:
		return whole, nil
	case len(subresources) == 1 && subresources[0] == string(StatusPart):
		return StatusPart, nil
	}
	for _, one := range subresources {
		if err := inPath("subresource", one); err != nil {
			return whole, err
		}
	}
	return whole, apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", Resource, name, "", 0, false)
}

func unsupportedPatch(pt types.PatchType) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf(
			"the body of the request was in an unknown format (%s) - accepted media types include: %s, %s, %s",
			pt, types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType),
	}}
}

// mergePatch is a JSON merge patch by the object's top-level members. The other members are neither
// encoded nor decoded, so a patch of the status has no cost for the manifests.
type mergePatch map[string]json.RawMessage

func parseMergePatch(data []byte) (mergePatch, error) {
	if jsontext.KindOf(data) != jsontext.Object || !jsontext.Valid(data) {
		if err := json.Unmarshal(data, &map[string]any{}); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		return nil, nil // null
	}
	p := mergePatch{}
	for cursor := jsontext.Open(data); cursor.Next(); {
		if name, _ := jsontext.Text(cursor.Key); slices.Contains(members, name) {
			p[name] = cursor.Value
		}
	}
	return p, nil
}

// maxCopied is the API server's limit of the bytes that the copy operations of a JSON patch may
// add.
const maxCopied = 3 << 20

func parseJSONPatch(data []byte) (jsonpatch.Patch, error) {
	patch, err := jsonpatch.Decode(data)
	var many *jsonpatch.OperationsError
	switch {
	case errors.As(err, &many):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", jsontext.MaxOperations, many.Count))
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decode the JSON patch: %v", err))
	}
	return patch, nil
}

// patcher applies patches to the members that one subresource may change, and ignores the others.
type patcher struct {
	sub    Subresource
	strict bool
}

// members are the members of an object, in the order in which the API server reads them. If several
// are invalid, the error is that of the first.
var members = []string{"kind", "apiVersion", "metadata", "spec", "status"}

func (p *patcher) mergePatch(
	patch mergePatch, current *workv1.ManifestWork,
) (*workv1.ManifestWork, field.ErrorList, error) {
	next := *current
	next.TypeMeta = ownType
	var invalid field.ErrorList
	for _, member := range members {
		change, ok := patch[member]
		if !ok {
			continue
		}
		var err error
		switch {
		case member == "metadata":
			if setPreconditions(&next.ObjectMeta, change) {
				continue
			}
			if next.ObjectMeta, err = mergeMember(current.ObjectMeta, change, keep); err != nil {
				err = patchError(member, err)
			}
		case member == "kind" || member == "apiVersion":
			if next.TypeMeta, err = mergeType(next.TypeMeta, member, change); err != nil {
				err = patchError(member, err)
			}
		case member == "spec" && p.sub == whole:
			next.Spec, invalid, err = mergeContent(current.Spec, change, func(doc []byte) ([]byte, field.ErrorList, error) {
				return completeSpec(doc, change, next.TypeMeta)
			})
		case member == "status" && p.sub == StatusPart:
			if replaceStatusLists(&next.Status, change) {
				continue
			}
			next.Status, invalid, err = mergeContent(current.Status, change, func(doc []byte) ([]byte, field.ErrorList, error) {
				return completeStatus(doc, next.TypeMeta)
			})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return &next, invalid, nil
}

// mergeContent merges a patch into spec or status. An invalid result is not decoded: the current
// value stays.
func mergeContent[T any](
	current T, patch json.RawMessage, complete func([]byte) ([]byte, field.ErrorList, error),
) (T, field.ErrorList, error) {
	var invalid field.ErrorList
	next, err := mergeMember(current, patch, func(doc []byte) (completed []byte, err error) {
		completed, invalid, err = complete(doc)
		return completed, err
	})
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		err = patchError("", err) // a typed client could not decode it
	}
	return next, invalid, err
}

// mergeType merges a patch of kind or apiVersion.
func mergeType(t metav1.TypeMeta, member string, change json.RawMessage) (metav1.TypeMeta, error) {
	var word string
	if err := json.Unmarshal(change, &word); err != nil {
		return t, err
	}
	if member == "kind" {
		t.Kind = word
	} else {
		t.APIVersion = word
	}
	return t, nil
}

// setPreconditions merges a patch of metadata that has only the preconditions that agents send with
// the status, without encoding the metadata. It returns false for other patches.
func setPreconditions(meta *metav1.ObjectMeta, patch json.RawMessage) bool {
	next := *meta
	for members := jsontext.Open(patch); members.Next(); {
		text, ok := jsontext.Text(members.Value)
		switch string(members.Key) {
		case `"uid"`:
			next.UID = types.UID(text)
		case `"resourceVersion"`:
			next.ResourceVersion = text
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	*meta = next
	return jsontext.KindOf(patch) == jsontext.Object
}

// replaceStatusLists merges the most frequent patch of agents, which replaces whole lists of the
// status, without encoding the status. It returns false for a patch that deletes by null or does
// not fit the type of the status: mergeMember handles it, or finds the error.
func replaceStatusLists(status *workv1.ManifestWorkStatus, patch json.RawMessage) bool {
	if bytes.Contains(patch, []byte("null")) {
		return false
	}
	var lists struct {
		Conditions     *[]metav1.Condition `json:"conditions"`
		ResourceStatus struct {
			Manifests *[]workv1.ManifestCondition `json:"manifests"`
		} `json:"resourceStatus"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(patch, &lists); err != nil {
		return false
	}
	named := workv1.ManifestWorkStatus{Conditions: ptr.Deref(lists.Conditions, nil)}
	named.ResourceStatus.Manifests = ptr.Deref(lists.ResourceStatus.Manifests, nil)
	if !crd.Complete(&named, patch) || !crd.StatusFits(&named) {
		return false // the schema must check the JSON, where missing differs from empty
	}
	if lists.Conditions != nil {
		status.Conditions = named.Conditions
	}
	if lists.ResourceStatus.Manifests != nil {
		status.ResourceStatus.Manifests = named.ResourceStatus.Manifests
	}
	return true
}

// mergeMember merges a patch into a member; finish may change the merged JSON before it is decoded,
// or return nil to keep the current member.
func mergeMember[T any](current T, patch json.RawMessage, finish func([]byte) ([]byte, error)) (T, error) {
	var next T
	if string(bytes.TrimSpace(patch)) == "null" {
		return next, nil
	}
	merged := []byte(patch) // a patch that is no object replaces the member
	if bytes.HasPrefix(bytes.TrimSpace(patch), []byte("{")) {
		doc, err := json.Marshal(current)
		if err != nil {
			return next, err
		}
		merged, err = jsonpatch.Merge(doc, patch)
		switch {
		case errors.Is(err, jsonpatch.ErrTooExpensive):
			return next, tooExpensive(err)
		case err != nil:
			return next, apierrors.NewBadRequest(err.Error())
		}
	}
	merged, err := finish(merged)
	if err != nil {
		return next, err
	}
	if merged == nil {
		return current, nil
	}
	err = kjson.UnmarshalCaseSensitivePreserveInts(merged, &next)
	return next, err
}

func keep(doc []byte) ([]byte, error) { return doc, nil }

func (p *patcher) jsonPatch(
	patch jsonpatch.Patch, current *workv1.ManifestWork,
) (*workv1.ManifestWork, field.ErrorList, error) {
	doc, err := json.Marshal(stored(current))
	if err != nil {
		return nil, nil, err
	}
	patched, err := patch.Apply(doc, jsonpatch.Options{MaxCopied: maxCopied, Lenient: true})
	switch {
	case errors.Is(err, jsonpatch.ErrTooExpensive):
		return nil, nil, tooExpensive(err)
	case err != nil:
		of := schema.GroupResource{}
		refused := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", of, "", "", 0, false)
		refused.ErrStatus.Message += ": " + err.Error()
		return nil, nil, refused
	}
	if p.strict {
		if err := checkUnknown(patched, nil); err != nil {
			return nil, nil, err
		}
	}
	patched, invalid, err := p.completeObject(patched)
	if err != nil {
		return nil, nil, err
	}
	next := &workv1.ManifestWork{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(patched, next); err != nil {
		return nil, nil, patchError("", err)
	}
	if len(invalid) > 0 {
		next.Spec, next.Status = current.Spec, current.Status
	}
	return next, invalid, nil
}

// tooExpensive returns the error for a patch beyond a limit of the API server or of this package.
func tooExpensive(err error) error { return apierrors.NewRequestEntityTooLargeError(err.Error()) }

func patchError(member string, err error) error {
	return invalidPatch(fmt.Sprintf("the patched %s is not that of a ManifestWork: %v", cmp.Or(member, "object"), err))
}

// invalidPatch returns the API server's error for an invalid result of a patch.
func invalidPatch(detail string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), field.OmitValueType{}, detail)})
}
