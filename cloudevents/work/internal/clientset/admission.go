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
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// Normalize turns manifests that were given as Go objects into the raw JSON that the store keeps.
func Normalize(obj *workv1.ManifestWork) error {
	manifests := obj.Spec.Workload.Manifests
	for i := range manifests {
		m := &manifests[i]
		if len(m.Raw) > 0 || m.Object == nil {
			continue
		}
		raw, err := json.Marshal(m.Object)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("spec.workload.manifests[%d] cannot be encoded: %v", i, err))
		}
		m.Raw, m.Object = raw, nil
	}
	return nil
}

// ValidateNew checks an object that is to be created. invalid is what the schema has against its spec already.
func ValidateNew(obj *workv1.ManifestWork, invalid field.ErrorList) error {
	errs := validation.ValidateObjectMeta(&obj.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if len(invalid) > 0 {
		return newInvalid(Kind, obj.Name, crd.MarkBlocked(append(errs, invalid...)))
	}
	return withSpec(obj, errs)
}

// ValidateChange checks what an object becomes. invalid is what the schema has against its spec already. What was
// wrong before does not count: a peer that checks less than we do may have sent it, and nobody could mend it here.
func ValidateChange(current, next *workv1.ManifestWork, specChanged bool, invalid field.ErrorList) error {
	errs := metadataErrors(current, next)
	if len(errs) > 0 {
		errs = without(errs, metadataErrors(current, current))
	}
	errs = append(errs, invalid...)
	if specChanged {
		return withSpec(next, errs)
	}
	if len(errs) > 0 {
		return newInvalid(Kind, next.Name, crd.MarkBlocked(errs))
	}
	return nil
}

// without returns the errors that are not among known. The text of an error has its field.
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
	// The API server checks a custom resource's metadata as that of any object and then again in the resource's
	// own strategy; clients that read the causes see each of them as often.
	errs = append(errs, errs...)
	return append(errs, validation.ValidateObjectMeta(&next.ObjectMeta, true, validation.NameIsDNSSubdomain, path)...)
}

// withSpec adds what the CRD has against the spec to what is wrong with the metadata. The schema is asked only
// where the typed check is not satisfied.
func withSpec(obj *workv1.ManifestWork, errs field.ErrorList) error {
	if deep := tooDeep(&obj.Spec); len(deep) > 0 {
		errs = append(errs, deep...) // the schema's decoders do not go there
	} else if !crd.SpecFits(&obj.Spec) {
		more, err := validateSpec(&obj.Spec)
		if err != nil {
			return err
		}
		errs = append(errs, more...)
	}
	if len(errs) > 0 {
		return newInvalid(Kind, obj.Name, crd.MarkBlocked(errs))
	}
	return nil
}

func validateSpec(spec *workv1.ManifestWorkSpec) (field.ErrorList, error) {
	var errs field.ErrorList
	path := field.NewPath("spec", "workload", "manifests")
	for i := range spec.Workload.Manifests {
		// A real server never sees this: its client fails to encode the object.
		if raw := spec.Workload.Manifests[i].Raw; len(raw) > 0 && !json.Valid(raw) {
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
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec cannot be encoded: %v", err))
	}
	_, errs = crd.Member("spec", data)
	return errs, nil
}

// tooDeep returns the manifests that are nested deeper than an event, or a record of a Store, can have them.
func tooDeep(spec *workv1.ManifestWorkSpec) (errs field.ErrorList) {
	for i := range spec.Workload.Manifests {
		raw := spec.Workload.Manifests[i].Raw
		// Most manifests are too short for that many levels, or have too few of these characters at all.
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

// unreadable is the API server's answer to manifests that it cannot even read, or nil.
func unreadable(spec *workv1.ManifestWorkSpec) error {
	if crd.ManifestsFit(spec) {
		return nil
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil // the validation says which manifest it is
	}
	if err := crd.Malformed("spec", data); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			Kind.Kind, "v1", Kind.Kind, err))
	}
	return nil
}

// tidy makes of metadata what the API server stores of it.
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

// distinctOwners returns the owners, each once.
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

// ValidateStatus returns the errors of the CRD for a status. The change has the type said, which its
// error names, and the errors invalid are known already.
func ValidateStatus(obj *workv1.ManifestWork, said metav1.TypeMeta, invalid field.ErrorList) error {
	if len(invalid) == 0 {
		if crd.StatusFits(&obj.Status) {
			return nil
		}
		data, err := json.Marshal(&obj.Status)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the status cannot be encoded: %v", err))
		}
		_, invalid = crd.Member("status", data)
	}
	if len(invalid) > 0 {
		return newInvalid(said.GroupVersionKind().GroupKind(), obj.Name, invalid)
	}
	return nil
}

// newInvalid returns an error with the first 500 causes: apierrors.NewInvalid takes time with the
// square of their number.
func newInvalid(Kind schema.GroupKind, name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(Kind, name, first(errs, 500))
}

// first returns the first errors of a list, and that there are others.
func first(errs field.ErrorList, n int) field.ErrorList {
	if len(errs) <= n {
		return errs
	}
	return append(errs[:n:n], field.Invalid(nil, nil, "there are more errors"))
}

// StatusErrors returns what the CRD has against the first bad part of a status that a peer has
// sent. A list that is null counts as empty, as peers without an API server between them may send
// one.
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

// The schema takes time with the square of a list's length, so it does not see larger parts of a
// peer's object than mostExplained.
const (
	mostExplained     = 64 << 10
	tooLargeToExplain = "is invalid, and too large for details"
)

// placed sets the place in the first list of the errors' paths.
func placed(errs field.ErrorList, place int) field.ErrorList {
	set := func(path string) string { return strings.Replace(path, "[0]", fmt.Sprintf("[%d]", place), 1) }
	if place > 0 {
		for _, e := range errs {
			e.Field, e.Detail = set(e.Field), set(e.Detail)
		}
	}
	return errs
}

// Brief returns an error of a peer's object with as much of its text as a log line needs, nil for no errors. What the
// peer has sent may be part of the text.
func Brief(errs field.ErrorList) error {
	const most = 1 << 10
	if len(errs) == 0 {
		return nil
	}
	text := first(errs, 10).ToAggregate().Error()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return errors.New(text)
}

// SpecErrors returns what the CRD has against the first bad part of a spec that a peer has sent.
// What the API server sets by default may be missing.
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

// CarryOver gives next what no write through a clientset changes.
func CarryOver(current, next *workv1.ManifestWork) {
	next.TypeMeta = current.TypeMeta
	if next.UID == "" {
		next.UID = current.UID // else it is the same, or the validation says that it is not for writing
	}
	next.ResourceVersion = current.ResourceVersion
	next.Generation = current.Generation
	next.CreationTimestamp = current.CreationTimestamp
	if next.DeletionTimestamp == nil || current.DeletionTimestamp != nil {
		next.DeletionTimestamp = current.DeletionTimestamp // else the validation says that it is not for writing
	}
	if next.DeletionGracePeriodSeconds == nil {
		next.DeletionGracePeriodSeconds = current.DeletionGracePeriodSeconds // else likewise
	}
	next.ManagedFields = current.ManagedFields
}

// unchanged reports whether a write would change nothing; such a write is no event and no new version.
func unchanged(current, next *workv1.ManifestWork) bool {
	return SameMetadata(current, next) && current.GenerateName == next.GenerateName && sameManaged(current, next) &&
		slices.Equal(current.Finalizers, next.Finalizers) &&
		SameSpec(&current.Spec, &next.Spec) &&
		apiequality.Semantic.DeepEqual(current.Status, next.Status)
}

// SameMetadata compares the metadata that travels.
func SameMetadata(a, b *workv1.ManifestWork) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// KeepEqualManifests gives next the raw form of current's manifests where both mean the same, so that a
// client that decoded and encoded a manifest has not changed it.
func KeepEqualManifests(current, next *workv1.ManifestWorkSpec) {
	was, is := current.Workload.Manifests, next.Workload.Manifests
	for i := range min(len(was), len(is)) {
		if !bytes.Equal(was[i].Raw, is[i].Raw) && sameJSON(was[i].Raw, is[i].Raw) {
			is[i].Raw = was[i].Raw
		}
	}
}

func sameJSON(a, b []byte) bool {
	decode := func(data []byte) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // or large integers would be equal to their neighbours
		err = d.Decode(&v)
		return v, err
	}
	x, err := decode(a)
	if err != nil {
		return false
	}
	y, err := decode(b)
	return err == nil && reflect.DeepEqual(x, y)
}

// SameSpec compares specs; the manifests, which are most of them, byte by byte.
func SameSpec(a, b *workv1.ManifestWorkSpec) bool {
	if !slices.EqualFunc(a.Workload.Manifests, b.Workload.Manifests, func(a, b workv1.Manifest) bool {
		return bytes.Equal(a.Raw, b.Raw)
	}) {
		return false
	}
	restA, restB := *a, *b
	restA.Workload.Manifests, restB.Workload.Manifests = nil, nil
	return apiequality.Semantic.DeepEqual(restA, restB)
}
