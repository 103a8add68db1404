// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// Normalize converts manifests that are Go objects to raw JSON, the form in the cache.
func Normalize(obj *workv1.ManifestWork) error {
	manifests := obj.Spec.Workload.Manifests
	for i := range manifests {
		m := &manifests[i]
		if len(m.Raw) > 0 || m.Object == nil {
			continue
		}
		raw, err := json.Marshal(m.Object)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("encode spec.workload.manifests[%d]: %v", i, err))
		}
		m.Raw, m.Object = raw, nil
	}
	return nil
}

// ValidateNew checks a new object. invalid has the known schema errors of its spec.
func ValidateNew(obj *workv1.ManifestWork, invalid field.ErrorList) error {
	errs := validation.ValidateObjectMeta(&obj.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if len(invalid) > 0 {
		return newInvalid(Kind, obj.Name, crd.MarkBlocked(append(errs, invalid...)))
	}
	return withSpec(obj, errs)
}

// ValidateChange checks the change from current to next. invalid has the known schema errors of its
// spec. It ignores errors that current has as well: a peer with fewer checks may have sent them,
// and a user could not correct them here.
func ValidateChange(current, next *workv1.ManifestWork, specChanged bool, invalid field.ErrorList) error {
	errs := metadataErrors(current, next)
	if len(errs) > 0 {
		errs = without(errs, metadataErrors(current, current))
	}
	errs = append(errs, invalid...)
	if specChanged {
		return withSpec(next, errs)
	}
	return newInvalid(Kind, next.Name, crd.MarkBlocked(errs))
}

// without returns the errors that are not among known. The text of an error contains its field.
func without(errs, known field.ErrorList) field.ErrorList {
	if len(known) == 0 {
		return errs
	}
	texts := make(map[string]bool, len(known))
	for _, k := range known {
		texts[k.Error()] = true
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool { return texts[e.Error()] })
}

func metadataErrors(current, next *workv1.ManifestWork) field.ErrorList {
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaUpdate(&next.ObjectMeta, &current.ObjectMeta, path)
	// The API server checks a custom resource's metadata twice, so each cause is there twice.
	errs = append(errs, errs...)
	return append(errs, validation.ValidateObjectMeta(&next.ObjectMeta, true, validation.NameIsDNSSubdomain, path)...)
}

// withSpec adds the errors of the spec by the CRD to errs, those of the metadata.
func withSpec(obj *workv1.ManifestWork, errs field.ErrorList) error {
	if deep := tooDeep(&obj.Spec); len(deep) > 0 {
		errs = append(errs, deep...) // the schema's decoders have a depth limit
	} else if !crd.SpecFits(&obj.Spec) {
		more, err := validateSpec(&obj.Spec)
		if err != nil {
			return err
		}
		errs = append(errs, more...)
	}
	return newInvalid(Kind, obj.Name, crd.MarkBlocked(errs))
}

func validateSpec(spec *workv1.ManifestWorkSpec) (field.ErrorList, error) {
	var errs field.ErrorList
	path := field.NewPath("spec", "workload", "manifests")
	for i := range spec.Workload.Manifests {
		// A real server never receives this: its client fails to encode the object.
		if raw := spec.Workload.Manifests[i].Raw; raw != nil && !json.Valid(raw) {
			errs = append(errs, field.Invalid(path.Index(i), field.OmitValueType{}, "must be a JSON object"))
		}
	}
	if len(errs) > 0 {
		return errs, nil
	}
	if err := unreadable(spec); err != nil {
		return nil, err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("encode the spec: %v", err))
	}
	_, errs = crd.Member("spec", data)
	return errs, nil
}

// tooDeep returns errors for manifests that are nested deeper than an event, or a record of a
// Store, allows.
func tooDeep(spec *workv1.ManifestWorkSpec) (errs field.ErrorList) {
	for i := range spec.Workload.Manifests {
		raw := spec.Workload.Manifests[i].Raw
		// Most manifests are too short for that many levels, or have too few of these characters.
		if len(raw) <= 2*codec.MaxManifestDepth ||
			bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= codec.MaxManifestDepth {
			continue
		}
		if yamldoc.Depth(raw) > codec.MaxManifestDepth {
			errs = append(errs, field.Invalid(field.NewPath("spec", "workload", "manifests").Index(i), field.OmitValueType{},
				fmt.Sprintf("must not be nested deeper than %d levels", codec.MaxManifestDepth)))
		}
	}
	return errs
}

// unreadable returns the API server's error for manifests that it cannot decode, or nil.
func unreadable(spec *workv1.ManifestWorkSpec) error {
	if err := malformed(spec); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			Kind.Kind, "v1", Kind.Kind, err))
	}
	return nil
}

// malformed returns the first manifest that an API server cannot decode, or nil.
func malformed(spec *workv1.ManifestWorkSpec) *field.Error {
	if crd.ManifestsFit(spec) {
		return nil
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil // the validation reports the manifest
	}
	return crd.Malformed("spec", data)
}

// tidy converts metadata to the form that the API server stores.
func tidy(m *metav1.ObjectMeta) {
	m.SetSelfLink("")
	m.OwnerReferences = distinctOwners(m.OwnerReferences)
	if len(m.OwnerReferences) == 0 {
		m.OwnerReferences = nil
	}
	if len(m.Finalizers) == 0 {
		m.Finalizers = nil
	}
	if len(m.Labels) == 0 {
		m.Labels = nil
	}
	if len(m.Annotations) == 0 {
		m.Annotations = nil
	}
}

// distinctOwners returns the owners without duplicates.
func distinctOwners(owners []metav1.OwnerReference) []metav1.OwnerReference {
	same := func(a, b metav1.OwnerReference) bool { return a.UID == b.UID && apiequality.Semantic.DeepEqual(a, b) }
	for i := 1; i < len(owners); i++ {
		if !slices.ContainsFunc(owners[:i], func(o metav1.OwnerReference) bool { return same(o, owners[i]) }) {
			continue
		}
		out := slices.Clone(owners[:i])
		for _, one := range owners[i:] {
			if !slices.ContainsFunc(out, func(o metav1.OwnerReference) bool { return same(o, one) }) {
				out = append(out, one)
			}
		}
		return out
	}
	return owners
}

// ValidateStatus returns the errors of the CRD for a status. said is the type of the change, for
// the error. invalid has the known errors.
func ValidateStatus(obj *workv1.ManifestWork, said metav1.TypeMeta, invalid field.ErrorList) error {
	if len(invalid) == 0 {
		if crd.StatusFits(&obj.Status) {
			return nil
		}
		data, err := json.Marshal(&obj.Status)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("encode the status: %v", err))
		}
		_, invalid = crd.Member("status", data)
	}
	return newInvalid(said.GroupVersionKind().GroupKind(), obj.Name, invalid)
}

// newInvalid returns an error with the first 500 causes, or nil without errors. The time of
// apierrors.NewInvalid grows with the square of their number.
func newInvalid(Kind schema.GroupKind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(Kind, name, first(errs, 500))
}

// first returns the first n errors of a list, and an error for the others.
func first(errs field.ErrorList, n int) field.ErrorList {
	if len(errs) <= n {
		return errs
	}
	return append(errs[:n:n], field.Invalid(nil, nil, "there are more errors"))
}

// StatusErrors returns the errors by the CRD of the first invalid part of a status that a peer has
// sent. A null list counts as empty, since peers without an API server may send it.
func StatusErrors(status *workv1.ManifestWorkStatus) field.ErrorList {
	if crd.StatusFits(status) {
		return nil
	}
	filled := *status
	filled.ResourceStatus.Manifests = slices.Clone(status.ResourceStatus.Manifests)
	for i := range filled.ResourceStatus.Manifests {
		if m := &filled.ResourceStatus.Manifests[i]; m.Conditions == nil {
			m.Conditions = []metav1.Condition{}
		}
	}
	for part, place := range crd.UnfitStatus(&filled) {
		data, err := json.Marshal(part)
		switch {
		case err != nil:
			return field.ErrorList{field.InternalError(field.NewPath("status"), err)}
		case len(data) > mostExplained:
			return field.ErrorList{field.Invalid(field.NewPath("status"), field.OmitValueType{}, tooLargeToExplain)}
		}
		if _, errs := crd.Member("status", data); len(errs) > 0 {
			return placed(errs, place)
		}
	}
	return nil
}

// The time of the schema grows with the square of a list's length. So it does not check parts of a
// peer's object above mostExplained bytes.
const (
	mostExplained     = 64 << 10
	tooLargeToExplain = "is invalid, and too large for details"
)

// placed sets the index of the first list in the errors' paths.
func placed(errs field.ErrorList, place int) field.ErrorList {
	set := func(path string) string { return strings.Replace(path, "[0]", fmt.Sprintf("[%d]", place), 1) }
	if place > 0 {
		for _, e := range errs {
			e.Field, e.Detail = set(e.Field), set(e.Detail)
		}
	}
	return errs
}

// Brief returns one error with the text of errs, shortened for a log line, or nil without errors.
// The text may contain values that the peer has sent.
func Brief(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return errors.New(cut.Text(first(errs, 10).ToAggregate().Error(), 1<<10))
}

// SpecErrors returns the errors by the CRD of the first invalid part of a spec that a peer has
// sent. Fields with a default of the API server may be missing.
func SpecErrors(spec *workv1.ManifestWorkSpec) field.ErrorList {
	if crd.DecodedSpecFits(spec) {
		return nil
	}
	if deep := tooDeep(spec); len(deep) > 0 {
		return deep
	}
	filled := spec.DeepCopy()
	crd.Default(filled)
	for part, place := range crd.Unfit(filled) {
		if data, err := json.Marshal(part.ManifestConfigs); err != nil || len(data) > mostExplained {
			path := field.NewPath("spec", "manifestConfigs").Index(place)
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, tooLargeToExplain)}
		}
		errs, err := validateSpec(part)
		if err != nil {
			errs = field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())}
		}
		if len(errs) > 0 {
			return placed(errs, place)
		}
	}
	return nil
}

// CarryOver copies the fields that no write through a clientset changes from current to next.
func CarryOver(current, next *workv1.ManifestWork) {
	next.TypeMeta = current.TypeMeta
	if next.UID == "" {
		next.UID = current.UID // otherwise it is the same, or the validation refuses it
	}
	next.ResourceVersion = current.ResourceVersion
	next.Generation = current.Generation
	next.CreationTimestamp = current.CreationTimestamp
	if next.DeletionTimestamp == nil || current.DeletionTimestamp != nil {
		next.DeletionTimestamp = current.DeletionTimestamp // otherwise the validation refuses it
	}
	if next.DeletionGracePeriodSeconds == nil {
		next.DeletionGracePeriodSeconds = current.DeletionGracePeriodSeconds // otherwise the same
	}
	next.ManagedFields = current.ManagedFields
}

// unchanged reports whether a write would change nothing. Such a write has no event and no new
// version.
func unchanged(current, next *workv1.ManifestWork) bool {
	return SameMetadata(current, next) && current.GenerateName == next.GenerateName && sameManaged(current, next) &&
		slices.Equal(current.Finalizers, next.Finalizers) &&
		SameSpec(&current.Spec, &next.Spec) &&
		apiequality.Semantic.DeepEqual(current.Status, next.Status)
}

// SameMetadata compares the metadata that events carry.
func SameMetadata(a, b *workv1.ManifestWork) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// KeepEqualManifests copies the raw form of current's manifests to next if both have the same JSON
// value: a client that decodes and encodes a manifest does not change it.
func KeepEqualManifests(current, next *workv1.ManifestWorkSpec) {
	was, is := current.Workload.Manifests, next.Workload.Manifests
	for i := range min(len(was), len(is)) {
		if !bytes.Equal(was[i].Raw, is[i].Raw) && sameJSON(was[i].Raw, is[i].Raw) {
			is[i].Raw = was[i].Raw
		}
	}
}

func sameJSON(a, b []byte) bool {
	decode := func(data []byte, v *any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // otherwise large integers would be equal to their neighbours
		return d.Decode(v)
	}
	var x, y any
	return decode(a, &x) == nil && decode(b, &y) == nil && reflect.DeepEqual(x, y)
}

// SameSpec compares specs. It compares manifests, the largest part, by their bytes.
func SameSpec(a, b *workv1.ManifestWorkSpec) bool {
	sameRaw := func(a, b workv1.Manifest) bool { return bytes.Equal(a.Raw, b.Raw) }
	if !slices.EqualFunc(a.Workload.Manifests, b.Workload.Manifests, sameRaw) {
		return false
	}
	restA, restB := *a, *b
	restA.Workload.Manifests, restB.Workload.Manifests = nil, nil
	return apiequality.Semantic.DeepEqual(restA, restB)
}
