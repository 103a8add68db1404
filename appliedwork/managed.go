// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// An object is known to be unchanged without a write as follows. It has the hash of the last
// applied manifest, which shows that the manifest is the same. The managed fields of the API server
// show that our fields were not changed since: a manager that changes a field becomes its owner.

// managerFor returns the field manager of an AppliedWork, which has its UID. Two works with the
// same manager would remove each other's owner references: an apply removes the fields that its
// manager does not send any more.
func managerFor(prefix string, uid types.UID) string { return prefix + "-" + string(uid) }

// isManagerOf reports whether a field manager belongs to an AppliedWork, with any prefix.
func isManagerOf(manager string, uid types.UID) bool {
	return strings.HasSuffix(manager, managerFor("", uid))
}

func hashAnnotation(uid types.UID) string { return v1alpha1.AnnotationAppliedHashPrefix + string(uid) }

func adoptedAnnotation(uid types.UID) string { return v1alpha1.AnnotationAdoptedPrefix + string(uid) }

func keptAnnotation(uid types.UID) string { return v1alpha1.AnnotationKeptPrefix + string(uid) }

// isAdopted reports whether an object has the annotation of objects that an AppliedWork has
// adopted.
func isAdopted(obj metav1.Object, uid types.UID) bool {
	return obj.GetAnnotations()[adoptedAnnotation(uid)] != ""
}

// wasOfWork reports whether another AppliedWork owns an object and has not adopted it. Such an
// object moves from work to work.
func wasOfWork(obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return isAppliedWork(r) && !isAdopted(obj, r.UID)
	})
}

// isKept reports whether a user has marked an object to stay: with our annotation, or with an
// annotation of kpt, Config Sync or cli-utils.
func isKept(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	return annotations[v1alpha1.AnnotationPrune] == "disabled" || annotations["client.lifecycle.config.k8s.io/deletion"] == "detach" ||
		annotations["cli-utils.sigs.k8s.io/on-remove"] == "keep"
}

// isMarkedKept reports whether an object has the annotation of objects that the policy of an
// AppliedWork keeps.
func isMarkedKept(obj metav1.Object, uid types.UID) bool {
	return obj.GetAnnotations()[keptAnnotation(uid)] != ""
}

// isKeptFrom reports whether an object must stay regardless of the policies of an AppliedWork:
// because of a user, or of the policy of another AppliedWork.
func isKeptFrom(obj metav1.Object, uid types.UID) bool {
	return isKept(obj) || hasAnnotationOfOthers(obj, v1alpha1.AnnotationKeptPrefix, uid)
}

func hasAnnotationOfOthers(obj metav1.Object, prefix string, uid types.UID) bool {
	for name := range obj.GetAnnotations() {
		if of, ok := strings.CutPrefix(name, prefix); ok && of != string(uid) {
			return true
		}
	}
	return false
}

// hasTraces reports whether an object was written for an AppliedWork. Its field manager or an
// annotation shows that.
func hasTraces(obj metav1.Object, uid types.UID) bool {
	return obj.GetAnnotations()[hashAnnotation(uid)] != "" || isAdopted(obj, uid) || isMarkedKept(obj, uid) ||
		isWrittenFor(obj, uid)
}

// hasTracesOfOthers reports whether an object was written for another AppliedWork.
func hasTracesOfOthers(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(workPrefixes, func(prefix string) bool {
		return hasAnnotationOfOthers(obj, prefix, uid)
	})
}

// workPrefixes are the prefixes of the annotations of an AppliedWork on an object.
var workPrefixes = []string{
	v1alpha1.AnnotationAppliedHashPrefix, v1alpha1.AnnotationAdoptedPrefix, v1alpha1.AnnotationKeptPrefix,
}

// isWrittenFor reports whether the API server has recorded a field manager of an AppliedWork for an
// object.
func isWrittenFor(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return isManagerOf(e.Manager, uid) })
}

// serverFields are the metadata fields that only the API server sets.
var serverFields = []string{
	"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
}

// form has the properties of the manifest to send that depend on the live object.
type form struct {
	unowned  bool   // it gets no owner reference
	adopted  bool   // it gets the annotation of adopted objects
	kept     bool   // it gets the annotation of objects that the policy keeps
	unhashed bool   // there is no room for the hash
	set      string // the ID of the ApplySet that it is part of, or empty

	ignored *ignored                   // nil if no field is ignored
	live    *unstructured.Unstructured // nil for a new object, which also gets the ignored fields
	ours    func(manager string) bool
}

// manifestOf returns the manifest to send for an object: without the fields of the server, with the
// given namespace, the owner reference and our annotations.
func manifestOf(obj *unstructured.Unstructured, namespace string, work *v1alpha1.AppliedWork, f form) (*unstructured.Unstructured, error) {
	m, err := copyOf(obj)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"annotations", "labels"} { // otherwise ours would replace it
		if _, _, err := unstructured.NestedStringMap(m.Object, "metadata", field); err != nil {
			return nil, fmt.Errorf("%w: metadata.%s is no map of strings", ErrInvalidObject, field)
		}
	}
	if !hasReferences(m) {
		return nil, fmt.Errorf("%w: metadata.ownerReferences is no list of objects", ErrInvalidObject)
	}
	for _, field := range serverFields {
		unstructured.RemoveNestedField(m.Object, "metadata", field)
	}
	delete(m.Object, "status")
	if err := encodeStringData(m); err != nil {
		return nil, err
	}
	hashed, suffix := m, []byte(nil)
	if f.ignored != nil {
		// The hash does not depend on ignored fields, which others may change.
		hashed, suffix = m.DeepCopy(), f.ignored.text
		f.ignored.without(hashed)
		f.mark(hashed, namespace, work)
		if f.live != nil {
			f.ignored.leaveTo(m, f.live, f.ours)
		}
	}
	f.mark(m, namespace, work)
	if f.unhashed {
		return m, nil
	}
	text, err := json.Marshal(hashed.Object) // with sorted keys
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidObject, err)
	}
	sum := sha256.Sum256(append(text, suffix...))
	annotate(m, hashAnnotation(work.UID), nameEncoding.EncodeToString(sum[:hashBytes]))
	return m, nil
}

// hasReferences reports whether the owner references of a manifest are a list of objects, or
// missing.
func hasReferences(m *unstructured.Unstructured) bool {
	value, ok, _ := unstructured.NestedFieldNoCopy(m.Object, "metadata", "ownerReferences")
	list, isList := value.([]any)
	isOther := func(item any) bool { _, isObject := item.(map[string]any); return !isObject }
	return !ok || isList && !slices.ContainsFunc(list, isOther)
}

// mark sets the namespace, the label, the owner reference and the annotations of an AppliedWork.
func (f form) mark(m *unstructured.Unstructured, namespace string, work *v1alpha1.AppliedWork) {
	// A manifest that was read from the cluster may have our annotations. With them, the hash would
	// change each time.
	for name := range m.GetAnnotations() {
		prefix, ours := strings.CutSuffix(name, string(work.UID))
		if ours && slices.Contains(workPrefixes, prefix) || strings.HasPrefix(name, v1alpha1.AnnotationKeptPrefix) {
			unstructured.RemoveNestedField(m.Object, "metadata", "annotations", name)
		}
	}
	m.SetNamespace(namespace)
	if f.set != "" {
		joinSet(m, f.set)
	}
	// A manifest that was read from a cluster has the references to AppliedWorks of that cluster.
	for _, owner := range m.GetOwnerReferences() {
		if isAppliedWork(owner) {
			RemoveOwnerReference(m, owner.UID)
		}
	}
	if !f.unowned {
		SetOwnerReference(m, work)
	}
	if f.adopted {
		annotate(m, adoptedAnnotation(work.UID), "true")
	}
	if f.kept {
		annotate(m, keptAnnotation(work.UID), "true")
	}
}

func annotate(m *unstructured.Unstructured, name, value string) {
	annotations := m.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	m.SetAnnotations(annotations)
}

// maxAnnotations is the number of bytes that the API server accepts for all annotations of an
// object.
const maxAnnotations = 256 << 10

// hasRoom reports whether the hash fits into the annotations of an object, with the annotations of
// the manifest and of others. Our annotations always count, even if the object does not have them.
// Otherwise the result would change with each write.
func hasRoom(manifest, live *unstructured.Unstructured, uid types.UID) bool {
	all := map[string]string{}
	if live != nil {
		maps.Copy(all, live.GetAnnotations())
	}
	maps.Copy(all, manifest.GetAnnotations())
	size := nameEncoding.EncodedLen(hashBytes) + 2*len("true")
	for _, prefix := range workPrefixes {
		delete(all, prefix+string(uid))
		size += len(prefix) + len(uid)
	}
	for name, value := range all {
		size += len(name) + len(value)
	}
	return size <= maxAnnotations
}

// copyOf copies an object by encoding it as JSON. DeepCopy panics at values that no decoder makes,
// such as an int in an object from Go code.
func copyOf(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidObject, err)
	}
	m := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &m.Object); err != nil { // integers stay integers
		return nil, fmt.Errorf("%w: %w", ErrInvalidObject, err)
	}
	return m, nil
}

// encodeStringData moves stringData of a Secret to data, as the API server does. If stringData was
// sent, a key that is removed later would stay in data. The object would also never look unchanged,
// because a Secret is read without stringData.
func encodeStringData(m *unstructured.Unstructured) error {
	if gvk := m.GroupVersionKind(); gvk.Group != "" || gvk.Kind != "Secret" || m.Object["stringData"] == nil {
		return nil
	}
	texts, _, err := unstructured.NestedStringMap(m.Object, "stringData")
	if err != nil {
		return fmt.Errorf("%w: stringData is no map of strings", ErrInvalidObject) // not err, which has the values
	}
	data, _, err := unstructured.NestedMap(m.Object, "data")
	if err != nil {
		return fmt.Errorf("%w: data is no map", ErrInvalidObject)
	}
	if data == nil {
		data = make(map[string]any, len(texts))
	}
	for name, text := range texts {
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(m.Object, "stringData")
	m.Object["data"] = data
	return nil
}

// isUnchanged reports whether an apply of manifest would not change live.
func isUnchanged(live, manifest *unstructured.Unstructured, uid types.UID, manager string) bool {
	hash := manifest.GetAnnotations()[hashAnnotation(uid)]
	if hash == "" || hash != live.GetAnnotations()[hashAnnotation(uid)] {
		return false
	}
	for _, wanted := range manifest.GetOwnerReferences() {
		same := false
		for _, r := range live.GetOwnerReferences() {
			same = same || sameReference(r, wanted)
		}
		if !same {
			return false
		}
	}
	content := make(map[string]any, len(manifest.Object))
	for name, value := range manifest.Object {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			content[name] = value
		}
	}
	metadata := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers"} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(manifest.Object, "metadata", name); ok {
			metadata[name] = value
		}
	}
	content["metadata"] = metadata
	return covers(fieldsOf(live, func(m string) bool { return m == manager }), content, live.Object)
}

// fieldsOf returns the fields that the given managers own, in the form of FieldsV1. The operation
// does not matter.
func fieldsOf(obj *unstructured.Unstructured, is func(manager string) bool) map[string]any {
	fields := map[string]any{}
	for _, e := range obj.GetManagedFields() {
		if !is(e.Manager) || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		var set map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) == nil {
			merge(fields, set)
		}
	}
	return fields
}

func merge(into, from map[string]any) {
	for name, value := range from {
		old, ok := into[name].(map[string]any)
		sub, both := value.(map[string]any)
		if !ok {
			into[name] = value
		} else if both {
			merge(old, sub)
		}
	}
}

// asApplied returns managedFields with all fields of our managers in one Apply entry of manager, so
// the next apply can remove fields. An Update entry would keep them. So would the entry of an
// earlier manager, which would also cause a conflict. The result is nil if no change is needed.
func asApplied(entries []metav1.ManagedFieldsEntry, manager string, ours func(manager string) bool) []metav1.ManagedFieldsEntry {
	var result, own []metav1.ManagedFieldsEntry
	isApplied := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply
	}
	for _, e := range entries {
		if e.Subresource == "" && ours(e.Manager) {
			own = append(own, e)
		} else {
			result = append(result, e)
		}
	}
	if len(own) == 0 || len(own) == 1 && isApplied(own[0]) {
		return nil
	}
	fields := map[string]any{}
	for _, e := range own {
		var set map[string]any
		if e.FieldsV1 != nil && json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) == nil {
			merge(fields, set)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil // does not happen: fields were decoded from JSON
	}
	joined := own[max(slices.IndexFunc(own, isApplied), 0)]
	joined.Manager, joined.Operation, joined.FieldsV1 = manager, metav1.ManagedFieldsOperationApply, metav1.NewFieldsV1(string(text))
	return append(result, joined)
}

// withoutUs returns managedFields without the managers of an AppliedWork. Others may then change
// the fields.
func withoutUs(entries []metav1.ManagedFieldsEntry, uid types.UID) []metav1.ManagedFieldsEntry {
	return orNone(slices.DeleteFunc(slices.Clone(entries), func(e metav1.ManagedFieldsEntry) bool {
		return isManagerOf(e.Manager, uid)
	}))
}

// orNone returns managedFields for a patch. The API server ignores an empty list. One empty entry
// removes all entries.
func orNone(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if len(entries) == 0 {
		return []metav1.ManagedFieldsEntry{{}}
	}
	return entries
}
