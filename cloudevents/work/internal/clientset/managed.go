// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// track records in managedFields that manager changed current to next. It is called for objects
// that were applied before: other objects have no managedFields. As on the API server,
// managedFields stay unchanged after an error.
func track(current, next *workv1.ManifestWork, sub Subresource, manager string) {
	fields, err := crd.FieldManager(string(sub))
	if err != nil {
		return
	}
	live, err := crd.Unstructured(current)
	if err != nil {
		return
	}
	changed, err := crd.Unstructured(next)
	if err != nil {
		return
	}
	obj := fields.UpdateNoErrors(live, changed, manager)
	if accessor, ok := obj.(metav1.Object); ok {
		next.ManagedFields = accessor.GetManagedFields()
	}
	if sameManaged(current, next) {
		next.ManagedFields = current.ManagedFields
	}
}

// sameManaged compares managedFields except their times: a new time alone is no change.
func sameManaged(a, b *workv1.ManifestWork) bool {
	return slices.EqualFunc(a.ManagedFields, b.ManagedFields, func(a, b metav1.ManagedFieldsEntry) bool {
		return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion &&
			a.FieldsType == b.FieldsType && a.Subresource == b.Subresource && sameFields(a.FieldsV1, b.FieldsV1)
	})
}

func sameFields(a, b *metav1.FieldsV1) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// processName returns the manager of writes without one: the beginning of client-go's user agent.
var processName = sync.OnceValue(func() string {
	name := "unknown"
	if len(os.Args) > 0 && os.Args[0] != "" {
		name = filepath.Base(os.Args[0])
	}
	name, _, _ = strings.Cut(name, "/")
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if len(name) > validation.FieldManagerMaxLength {
		name = strings.ToValidUTF8(name[:validation.FieldManagerMaxLength], "")
	}
	return name
})

func managerOrProcess(manager string) string {
	if manager != "" {
		return manager
	}
	return processName()
}
