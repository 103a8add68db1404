// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fields finds the fields that the rules of a work select: by a JSON path of Kubernetes, a
// JSON pointer (RFC 6901) or a path expression of jq. The cost is limited, because works are
// untrusted. Package appliedwork leaves the fields of ignoreFields to others.
package fields

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/internal/bound"
)

const (
	// mostFields is the maximum number of matches of a path.
	mostFields = 10_000
	// longestPath is the maximum length of a path, in bytes.
	longestPath = 4 << 10
	// pathLimit is the maximum time for one path or pointer, in addition to the limit of steps.
	pathLimit = time.Second
	// jqLimit is the maximum time for one expression of jq.
	jqLimit = 250 * time.Millisecond
)

// Error is an error of a path: the work is invalid, not the cluster.
type Error struct {
	// Path is the JSON path, pointer or expression, or the name of another invalid field.
	Path string
	Err  error
}

// Error returns the path and its problem.
func (e *Error) Error() string { return fmt.Sprintf("ignoreFields: %.1000q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NeedsLive reports whether [Ignored] needs the object on the cluster: JSON paths and expressions of
// jq also select fields that only the object has.
func NeedsLive(fields []workv1.IgnoreField) bool {
	for _, f := range fields {
		if f.Condition != workv1.IgnoreFieldsConditionOnSpokeChange && len(f.JSONPaths)+len(f.JQPathExpressions) > 0 {
			return true
		}
	}
	return false
}

// Ignored sets IgnoreFields and IgnoreChangedFields of the options for a manifest. live is the object
// on the cluster, or nil. Errors are [*Error], also for an object that does not exist yet, so
// invalid paths are reported early. The number of fields and the time are limited, also by the
// budget of ctx.
func Ignored(
	ctx context.Context, manifest, live *unstructured.Unstructured, fields []workv1.IgnoreField,
	options *appliedwork.ObjectOptions,
) error {
	steps := &bound.Steps{}
	for _, f := range fields {
		into := &options.IgnoreFields
		switch f.Condition {
		case workv1.IgnoreFieldsConditionOnSpokeChange:
			into = &options.IgnoreChangedFields
		case workv1.IgnoreFieldsConditionOnSpokePresent, "":
		default:
			return &Error{
				Path: "condition", Err: fmt.Errorf("%q is unknown: write OnSpokePresent or OnSpokeChange", f.Condition),
			}
		}
		found, err := find(ctx, steps, manifest, f)
		if err != nil {
			return err
		}
		for _, at := range found {
			*into = append(*into, at.pointer)
		}
		if live == nil || f.Condition == workv1.IgnoreFieldsConditionOnSpokeChange {
			continue
		}
		found, err = find(ctx, steps, without(live, "status"),
			workv1.IgnoreField{JSONPaths: f.JSONPaths, JQPathExpressions: f.JQPathExpressions})
		if steps.Err() != nil {
			return err
		}
		for _, at := range found { // other errors are ignored: the manifest had none
			if !leads(at.path, manifest.Object) {
				*into = append(*into, at.pointer)
			}
		}
	}
	return nil
}

// without returns an object without a field, and its metadata without managedFields.
func without(obj *unstructured.Unstructured, field string) *unstructured.Unstructured {
	content := maps.Clone(obj.Object)
	delete(content, field)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}

// field is a selected field: a JSON pointer, and the path of an existing field. In a path, strings
// are fields of objects, and ints are items of lists.
type field struct {
	pointer string
	path    []any
}

// leads reports whether a path also selects a field of the manifest, or goes through a list: the
// items of the manifest may have other positions.
func leads(path []any, manifest any) bool {
	for _, step := range path {
		name, ok := step.(string)
		if !ok {
			return true
		}
		fields, _ := manifest.(map[string]any)
		manifest = fields[name]
	}
	return manifest != nil
}

// find returns the fields of an object that a rule selects.
func find(
	ctx context.Context, steps *bound.Steps, obj *unstructured.Unstructured, f workv1.IgnoreField,
) (all []field, err error) {
	for _, by := range []struct {
		texts []string
		limit time.Duration
		find  func(context.Context, *bound.Steps, string, *unstructured.Unstructured) ([]field, error)
	}{{f.JSONPaths, pathLimit, byJSONPath}, {f.JSONPointers, pathLimit, byPointer}, {f.JQPathExpressions, jqLimit,
		byJQ}} {
		for _, text := range by.texts {
			var found []field
			err := guard.Evaluate(ctx, by.limit, func(ctx context.Context) (err error) {
				found, err = by.find(ctx, steps, text, obj)
				return err
			})
			for _, at := range found {
				err = cmp.Or(err, appliedwork.CheckIgnoreFields(obj, at.pointer))
			}
			if err != nil {
				return nil, &Error{Path: text, Err: err}
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// byPointer returns a JSON pointer unchanged.
func byPointer(_ context.Context, steps *bound.Steps, text string, _ *unstructured.Unstructured) ([]field, error) {
	return []field{{pointer: text}}, steps.Take("a JSON pointer", len(text))
}

// byJSONPath follows a JSON path of Kubernetes.
func byJSONPath(
	ctx context.Context, steps *bound.Steps, text string, obj *unstructured.Unstructured,
) ([]field, error) {
	found, err := Find(ctx, steps, text, obj.Object)
	if err != nil && !errors.Is(err, errMisfit) { // no match: no field is ignored
		return nil, err
	}
	fields := make([]field, len(found))
	for i, m := range found {
		if fields[i], err = fieldAt(steps, m.Path); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// fieldAt returns the field at a path.
func fieldAt(steps *bound.Steps, path []any) (field, error) {
	size := 0
	for _, step := range path {
		name, _ := step.(string)
		size += 4 + len(name)
	}
	if err := steps.Take("writing a JSON pointer", size); err != nil {
		return field{}, err
	}
	var b strings.Builder
	for _, step := range path {
		b.WriteByte('/')
		switch step := step.(type) {
		case string:
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1"))
		case int:
			b.WriteString(strconv.Itoa(step))
		}
	}
	return field{b.String(), path}, nil
}
