// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// managerFor returns the field manager of an AppliedWork. Two works with the same manager would
// remove each other's owner references: an apply removes the fields that its manager does not send
// any more.
func managerFor(prefix string, uid types.UID) string { return prefix + "-" + string(uid) }

// isManagerOf reports whether a field manager belongs to an AppliedWork, with any prefix.
func isManagerOf(manager string, uid types.UID) bool {
	return strings.HasSuffix(manager, managerFor("", uid))
}

func hashAnnotation(uid types.UID) string { return v1alpha1.AnnotationAppliedHashPrefix + string(uid) }

func adoptedAnnotation(uid types.UID) string { return v1alpha1.AnnotationAdoptedPrefix + string(uid) }

func keptAnnotation(uid types.UID) string { return v1alpha1.AnnotationKeptPrefix + string(uid) }

// workPrefixes are the prefixes of the annotations of an AppliedWork on an object.
var workPrefixes = []string{
	v1alpha1.AnnotationAppliedHashPrefix, v1alpha1.AnnotationAdoptedPrefix, v1alpha1.AnnotationKeptPrefix,
}

// isAdopted reports whether an AppliedWork has adopted an object.
func isAdopted(obj metav1.Object, uid types.UID) bool {
	return obj.GetAnnotations()[adoptedAnnotation(uid)] != ""
}

// wasOfWork reports whether another AppliedWork owns an object and has not adopted it.
func wasOfWork(obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return isAppliedWork(r) && !isAdopted(obj, r.UID)
	})
}

// isKept reports whether a user has marked an object to stay: with our annotation, or with that of
// kpt, Config Sync or cli-utils.
func isKept(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	return annotations[v1alpha1.AnnotationPrune] == "disabled" ||
		annotations["client.lifecycle.config.k8s.io/deletion"] == "detach" ||
		annotations["cli-utils.sigs.k8s.io/on-remove"] == "keep"
}

// isMarkedKept reports whether the policy of an AppliedWork keeps an object.
func isMarkedKept(obj metav1.Object, uid types.UID) bool {
	return obj.GetAnnotations()[keptAnnotation(uid)] != ""
}

// isKeptFrom reports whether a user or another AppliedWork's policy keeps an object, regardless of
// the policies of an AppliedWork.
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

// hasTraces reports whether an object has the field manager or an annotation of an AppliedWork.
func hasTraces(obj metav1.Object, uid types.UID) bool {
	return obj.GetAnnotations()[hashAnnotation(uid)] != "" || isAdopted(obj, uid) || isMarkedKept(obj, uid) ||
		isWrittenFor(obj, uid)
}

func hasTracesOfOthers(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(workPrefixes, func(prefix string) bool {
		return hasAnnotationOfOthers(obj, prefix, uid)
	})
}

// isWrittenFor reports whether an object has a field manager of an AppliedWork.
func isWrittenFor(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isManagerOf(e.Manager, uid)
	})
}

func isWritten(obj *unstructured.Unstructured, uid types.UID) bool {
	return obj != nil && (IsOwnedBy(obj, uid) || isWrittenFor(obj, uid))
}

// withoutUs returns managedFields without the managers of an AppliedWork, so that others may change
// the fields.
func withoutUs(entries []metav1.ManagedFieldsEntry, uid types.UID) []metav1.ManagedFieldsEntry {
	return fieldset.OrNone(slices.DeleteFunc(slices.Clone(entries), func(e metav1.ManagedFieldsEntry) bool {
		return isManagerOf(e.Manager, uid)
	}))
}
