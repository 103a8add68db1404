// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/fields"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/internal/bound"
)

const (
	// maxJSONRaw is the maximum number of characters of a JsonRaw value, by the API's schema.
	maxJSONRaw = 1024
	// maxString is the maximum number of characters of a String value: a status with the content of
	// a file may be too large for the transport.
	maxString = 16 << 10
	// pathLimit is the maximum time to follow one path.
	pathLimit = time.Second
)

// InVersion returns an object in another version of its kind.
type InVersion func(ctx context.Context, version string) (*unstructured.Unstructured, error)

// Feedback returns the values of feedback rules. A missing field has no value and is no error. If
// two values have the same name, the first is used. The cost of paths is limited, also by the budget
// of ctx. The error joins the errors of single rules; the other values are returned.
func Feedback(
	ctx context.Context, rules []workv1.FeedbackRule, obj *unstructured.Unstructured, inVersion InVersion,
) ([]workv1.FeedbackValue, error) {
	var values []workv1.FeedbackValue
	var errs []error
	seen := map[string]bool{}
	add := func(name string, value any, err error) {
		var v *workv1.FieldValue
		if err == nil {
			v, err = fieldValue(value)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case v != nil && !seen[name]:
			seen[name] = true
			values = append(values, workv1.FeedbackValue{Name: name, Value: *v})
		}
	}
	for _, rule := range rules {
		switch rule.Type {
		case workv1.WellKnownStatusType:
			wellKnownStatus(ctx, obj, add)
		case workv1.JSONPathsType:
			if len(rule.JsonPaths) == 0 {
				add("JSONPaths", nil, errors.New("the rule has no path: write jsonPaths"))
			}
			for _, p := range rule.JsonPaths {
				value, err := follow(ctx, p, obj, inVersion)
				add(p.Name, value, err)
			}
		default:
			add(string(rule.Type), nil, errors.New("this type of feedback rule is unknown: write WellKnownStatus "+
				"or JSONPaths"))
		}
	}
	return values, errors.Join(errs...)
}

// wellKnownStatus reads the well-known fields of a kind.
func wellKnownStatus(ctx context.Context, obj *unstructured.Unstructured, add func(string, any, error)) {
	fields, ok := wellKnownFields[obj.GetAPIVersion()+" "+obj.GetKind()]
	if !ok {
		add("WellKnownStatus", nil, fmt.Errorf("objects of kind %s in %s have no well-known status: use JSONPaths",
			obj.GetKind(), obj.GetAPIVersion()))
	}
	for _, f := range fields {
		value, err := find(ctx, ".status."+f.path, obj.Object)
		add(f.name, value, err)
	}
}

// follow follows a path in the version of the object that the path names.
func follow(ctx context.Context, p workv1.JsonPath, obj *unstructured.Unstructured, inVersion InVersion) (any, error) {
	if p.Version != "" && p.Version != obj.GroupVersionKind().Version {
		var err error
		if obj, err = inVersion(ctx, p.Version); err != nil {
			return nil, fmt.Errorf("read the object in version %s: %w", p.Version, err)
		}
	}
	value, err := find(ctx, p.Path, obj.Object)
	if value != nil || err != nil || strings.HasPrefix(p.Path, ".status") {
		return value, err
	}
	// The API specifies "the field under status"; OCM's agent reads paths from the object. This agent accepts both.
	status, ok := obj.Object["status"].(map[string]any)
	if !ok {
		return nil, nil
	}
	return find(ctx, p.Path, status)
}

// find returns the value that a path selects, a list if there are several, or nil.
func find(ctx context.Context, path string, object map[string]any) (any, error) {
	var found []fields.Match
	err := guard.Evaluate(ctx, pathLimit, func(ctx context.Context) (err error) {
		found, err = fields.Find(ctx, &bound.Steps{}, path, object)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the JSON path %.1000q cannot be read: %w", path, err)
	case len(found) == 0:
		return nil, nil
	case len(found) == 1:
		return found[0].Value, nil
	}
	values := make([]any, len(found))
	for i, m := range found {
		values[i] = m.Value
	}
	return values, nil
}

// fieldValue returns a value in the form of the API, or nil for nil.
func fieldValue(value any) (*workv1.FieldValue, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case int64:
		return &workv1.FieldValue{Type: workv1.Integer, Integer: &v}, nil
	case string:
		if n := utf8.RuneCountInString(v); n > maxString {
			return nil, fmt.Errorf("the text has %d characters, more than %d", n, maxString)
		}
		return &workv1.FieldValue{Type: workv1.String, String: &v}, nil
	case bool:
		return &workv1.FieldValue{Type: workv1.Boolean, Boolean: &v}, nil
	}
	if left(value, maxJSONRaw) < 0 {
		return nil, fmt.Errorf("the value has more than %d characters of JSON: name a part of it", maxJSONRaw)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	text := string(raw)
	if n := utf8.RuneCountInString(text); n > maxJSONRaw {
		return nil, fmt.Errorf("the value has %d characters of JSON, more than %d: name a part of it", n, maxJSONRaw)
	}
	return &workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &text}, nil
}

// left returns n minus the number of characters in the JSON of a value, or more. It returns early
// when the result is negative, because encoding a large value takes long.
func left(value any, n int) int {
	n--
	switch v := value.(type) {
	case string:
		n -= utf8.RuneCountInString(v)
	case []any:
		for i := 0; i < len(v) && n >= 0; i++ {
			n = left(v[i], n)
		}
	case map[string]any:
		for name, value := range v {
			if n = left(value, n-len(name)/utf8.UTFMax); n < 0 {
				break
			}
		}
	}
	return n
}
