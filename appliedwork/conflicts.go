// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/fielddiff"
)

// isRefusal reports whether an error proves that a request changed nothing.
func isRefusal(err error) bool {
	var adoption *AdoptionError
	var conflict *OwnershipConflictError
	if errors.As(err, &adoption) || errors.As(err, &conflict) || errors.Is(err, ErrChanged) || errors.Is(err, errMoved) ||
		errors.Is(err, ErrInvalidObject) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout ||
		isTooLarge(status.Status().Message)
}

// isTooLarge reports whether etcd, or the API server's client of etcd, has refused an object
// because of its size. The API server returns that as an internal error.
func isTooLarge(message string) bool {
	return strings.Contains(message, "etcdserver: request is too large") ||
		strings.Contains(message, "trying to send message larger than max")
}

// isInvalid reports whether the API server has refused an object because of a field.
func isInvalid(err error, field string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}

// isDryRunRefused reports whether a webhook has refused a request only because it was a dry run.
func isDryRunRefused(err error) bool {
	return strings.Contains(err.Error(), "does not support dry run")
}

// conflictOf returns the error for fields that others manage, or nil for any other error.
func conflictOf(key Key, err error) *OwnershipConflictError {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || !errors.As(err, &status) {
		return nil
	}
	conflict := &OwnershipConflictError{Key: key, Err: err}
	for _, cause := range status.Status().Details.Causes {
		conflict.Fields = append(conflict.Fields, cause.Field+": "+cause.Message)
		conflict.paths = append(conflict.paths, cause.Field)
	}
	return conflict
}

// isWithNobody reports whether all fields of a conflict have no manager any more, for example after
// a release. The API server reports the manager "before-first-apply" for them.
func (e *OwnershipConflictError) isWithNobody() bool {
	return e != nil && !slices.ContainsFunc(e.Fields, func(field string) bool {
		return !strings.Contains(field, `conflict with "before-first-apply"`)
	})
}

// withOthers returns the part of the conflict with managers that are not ours, or nil without such
// a part.
func (e *OwnershipConflictError) withOthers(ours func(manager string) bool) *OwnershipConflictError {
	others := &OwnershipConflictError{Key: e.Key, Err: e.Err}
	for i, field := range e.Fields {
		_, rest, _ := strings.Cut(field, `conflict with "`)
		if manager, _, _ := strings.Cut(rest, `"`); !ours(manager) {
			others.Fields, others.paths = append(others.Fields, field), append(others.paths, e.paths[i])
		}
	}
	if len(others.Fields) == 0 {
		return nil
	}
	return others
}

// withoutConflicts removes the fields of a conflict from a manifest, and reports whether it found
// them all.
func withoutConflicts(manifest *unstructured.Unstructured, conflict *OwnershipConflictError, live *unstructured.Unstructured, ours func(manager string) bool) bool {
	theirs := map[string]any{}
	for _, e := range live.GetManagedFields() {
		var set map[string]any
		if !ours(e.Manager) && e.FieldsV1 != nil && json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) == nil {
			merge(theirs, set)
		}
	}
	left := map[string]bool{}
	for _, path := range conflict.paths {
		left[path] = true
	}
	removeFields(manifest.Object, theirs, "", left)
	return len(left) == 0
}

// removeFields removes the fields with one of the paths from a value, and these paths from paths. A
// path has the form of the API server: .spec.containers[name="a"].image.
func removeFields(value any, fields map[string]any, path string, paths map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, node := range fields {
			name, ok := strings.CutPrefix(name, "f:")
			sub, exists := value[name]
			if !ok || !exists {
				continue
			}
			at := path + "." + name
			if paths[at] {
				delete(value, name)
				delete(paths, at)
				continue
			}
			if node, ok := node.(map[string]any); ok {
				removeFields(sub, node, at, paths)
			}
		}
	case []any:
		for name, node := range fields {
			text, ok := strings.CutPrefix(name, "k:")
			node, isMap := node.(map[string]any)
			var keys map[string]any
			if !ok || !isMap || json.Unmarshal([]byte(text), &keys) != nil {
				continue
			}
			for _, item := range itemsWith(value, keys) {
				removeFields(item, node, path+fielddiff.KeyPath(keys), paths)
			}
		}
	}
}

// mergeKeys are the merge keys of lists in the built-in kinds of Kubernetes.
var mergeKeys = []string{
	"name", "key", "type", "ip", "uid", "port", "containerPort", "mountPath", "devicePath", "topologyKey", "resourceName", "request",
}

// mayRepeatKeys reports whether a list may have two items with the same key, or a set the same item
// twice. A create accepts that for some kinds, and an apply does not. The key of a list is not
// known here, so the result may be true without need.
func mayRepeatKeys(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, sub := range value {
			if mayRepeatKeys(sub) {
				return true
			}
		}
	case []any:
		type field struct{ name, value string }
		seen := map[field]bool{}
		repeats := func(name string, v any) bool {
			f := field{name, fmt.Sprint(v)}
			again := seen[f]
			seen[f] = true
			return again
		}
		for _, item := range value {
			object, ok := item.(map[string]any)
			if !ok {
				if repeats("", item) {
					return true
				}
				continue
			}
			for _, name := range mergeKeys {
				if v, has := object[name]; has && repeats(name, v) {
					return true
				}
			}
			if mayRepeatKeys(object) {
				return true
			}
		}
	}
	return false
}
