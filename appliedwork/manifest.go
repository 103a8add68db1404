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

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// serverFields are the metadata fields that only the API server sets.
var serverFields = []string{
	"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "selfLink",
}

// form has the properties of the manifest to send that depend on the live object.
type form struct {
	unowned  bool   // it gets no owner reference
	adopted  bool   // it gets the annotation of adopted objects
	kept     bool   // it gets the annotation of objects that the policy keeps
	unhashed bool   // there is no room for the hash
	set      string // the ID of the ApplySet that it is part of, or empty

	ignored *fieldset.Ignored          // nil if no field is ignored
	live    *unstructured.Unstructured // nil for a new object, which also gets the ignored fields
	ours    func(manager string) bool
}

// manifestOf returns the manifest to send for an object.
func manifestOf(
	obj *unstructured.Unstructured, namespace string, work *v1alpha1.AppliedWork, f form,
) (*unstructured.Unstructured, error) {
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
		hashed, suffix = m.DeepCopy(), f.ignored.Text
		f.ignored.RemoveFrom(hashed)
		f.mark(hashed, namespace, work)
		if f.live != nil {
			f.ignored.LeaveTo(m, f.live, f.ours)
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

// hasReferences reports whether the owner references of a manifest are missing or a list of
// objects.
func hasReferences(m *unstructured.Unstructured) bool {
	value, ok, _ := unstructured.NestedFieldNoCopy(m.Object, "metadata", "ownerReferences")
	list, isList := value.([]any)
	isOther := func(item any) bool { _, isObject := item.(map[string]any); return !isObject }
	return !ok || isList && !slices.ContainsFunc(list, isOther)
}

// mark sets what a manifest has for an AppliedWork: namespace, label, owner reference and
// annotations.
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

// maxAnnotations is the API server's limit for all annotations of an object, in bytes.
const maxAnnotations = 256 << 10

// hasRoom reports whether the hash fits into the annotations of an object, with those of the
// manifest and of others. Our annotations always count: otherwise the result would change with each
// write.
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

// copyOf copies an object as JSON. DeepCopy panics at values that no decoder makes, such as an int.
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

// encodeStringData moves stringData of a Secret to data, as the API server does. Otherwise a key
// that is removed later would stay in data, and a Secret, which is read without stringData, would
// never be unchanged.
func encodeStringData(m *unstructured.Unstructured) error {
	if m.GroupVersionKind().GroupKind() != secretKind || m.Object["stringData"] == nil {
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

// withoutNulls returns a manifest without the nulls that templates write into fields that Apply
// reads. As on the API server, a null field is removed, and a null string is empty.
func withoutNulls(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || obj.Object == nil {
		return obj
	}
	object := maps.Clone(obj.Object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		fillNulls(metadata, "labels", "annotations", "ownerReferences")
		object["metadata"] = metadata
	}
	if obj.GroupVersionKind().GroupKind() == secretKind {
		fillNulls(object, "data", "stringData")
	}
	return asUnstructured(object)
}

func fillNulls(object map[string]any, fields ...string) {
	for _, field := range fields {
		switch value := object[field].(type) {
		case nil:
			delete(object, field)
		case map[string]any:
			texts := maps.Clone(value)
			for name, text := range texts {
				if text == nil {
					texts[name] = ""
				}
			}
			object[field] = texts
		}
	}
}

// isUnchanged reports whether an apply of manifest would not change live. The hash shows that the
// manifest is the last applied one. The managed fields show that others have not changed our fields
// since: a manager that changes a field becomes its owner.
func isUnchanged(live, manifest *unstructured.Unstructured, uid types.UID, manager string) bool {
	hash := manifest.GetAnnotations()[hashAnnotation(uid)]
	if hash == "" || hash != live.GetAnnotations()[hashAnnotation(uid)] {
		return false
	}
	for _, wanted := range manifest.GetOwnerReferences() {
		same := func(r metav1.OwnerReference) bool { return sameReference(r, wanted) }
		if !slices.ContainsFunc(live.GetOwnerReferences(), same) {
			return false
		}
	}
	content := maps.Clone(manifest.Object)
	delete(content, "apiVersion")
	delete(content, "kind")
	metadata := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers"} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(manifest.Object, "metadata", name); ok {
			metadata[name] = value
		}
	}
	content["metadata"] = metadata
	return fieldset.Covers(fieldset.Of(live, func(m string) bool { return m == manager }), content, live.Object)
}
