// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// podSpec decodes the spec of a pod template. Unknown fields are ignored: a newer Kubernetes may
// have them.
func podSpec(steps *bound.Steps, template ref.Val) (*corev1.PodSpec, error) {
	fields, err := plainFields(steps, template)
	if err != nil {
		return nil, fmt.Errorf("the pod template: %w", err)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	// Decoding takes about 10 times longer than reading.
	if err := steps.Take("a pod template", 10*len(raw)); err != nil {
		return nil, err
	}
	var pod corev1.PodTemplateSpec
	if err := jsontext.Decode(raw, &pod); err != nil {
		return nil, fmt.Errorf("the pod template: %w", withoutValues(err))
	}
	if field := noTemplate(fields); field != "" {
		return nil, fmt.Errorf(
			"a pod template has spec.containers, the argument has %s: pass the template, such as object.spec.template", field)
	}
	return &pod.Spec, nil
}

// noTemplate returns a field that shows that an object is not a pod template, or "". A template
// without spec has only metadata, and a spec with fields that are not of a pod has containers. An
// empty or partial template is a template.
func noTemplate(template map[string]any) string {
	spec, there := template["spec"]
	if !there {
		return unknownField(template, &metav1.PartialObjectMetadata{}, "status")
	}
	fields, _ := spec.(map[string]any)
	if _, ok := fields["containers"]; ok {
		return ""
	}
	if field := unknownField(fields, &corev1.PodSpec{}); field != "" {
		return "spec." + field
	}
	return ""
}

// unknownField returns the first field of an object that is neither in a type nor in more.
func unknownField(object map[string]any, of any, more ...string) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if slices.Contains(more, name) {
			continue
		}
		raw, _ := json.Marshal(map[string]any{name: nil})
		if unknown, _ := kjson.UnmarshalStrict(raw, of); len(unknown) > 0 {
			return fmt.Sprintf("%.64s", name)
		}
	}
	return ""
}

func podRequirements(steps *bound.Steps, args []ref.Val) (any, error) {
	spec, err := podSpec(steps, args[0])
	if err != nil {
		return nil, err
	}
	return generic[map[string]any](native.Requirements(spec, ""))
}

func podDependencies(steps *bound.Steps, args []ref.Val) (any, error) {
	spec, err := podSpec(steps, args[1])
	if err != nil {
		return nil, err
	}
	return generic[[]any](native.Dependencies(spec, text(args[0], "metadata", "namespace")))
}

// generic returns a Go value as decoded JSON.
func generic[T any](v any) (out T, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	err = jsontext.Decode(raw, &out)
	return out, err
}

func references(steps *bound.Steps, args []ref.Val) (any, error) {
	out := []any{}
	namespace := text(args[0], "metadata", "namespace")
	err := each(steps, args[3], func(name ref.Val) error {
		s, ok := name.(types.String)
		if !ok {
			return fmt.Errorf("a name is %s: write a string", typeOf(name))
		}
		if s == "" {
			return nil
		}
		reference := map[string]any{"apiVersion": args[1], "kind": args[2], "name": s}
		if namespace != "" {
			reference["namespace"] = namespace
		}
		out = append(out, reference)
		return steps.Take("references", 4*perField)
	})
	return out, err
}

func quantity(steps *bound.Steps, args []ref.Val) (any, error) {
	q, err := readQuantity(steps, args[0])
	return q.AsApproximateFloat64(), err
}

func readQuantity(steps *bound.Steps, v ref.Val) (resource.Quantity, error) {
	text, err := plain(steps, v)
	if err != nil {
		return resource.Quantity{}, err
	}
	return quantityOf(text)
}

func integerOf(steps *bound.Steps, args []ref.Val) (any, error) {
	switch v := unwrap(args[0]).(type) {
	case nil, types.Null:
		return args[1], nil
	case types.Int:
		return v, nil
	case types.Double:
		if n := types.Int(v); types.Double(n) == v {
			return n, nil
		}
	case types.String:
		if v == "" {
			return args[1], nil
		}
		if err := steps.Take("integer", len(v)); err != nil {
			return nil, err
		}
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
		return nil, errors.New("the string is not an integer")
	}
	return nil, fmt.Errorf("%s is not an integer", typeOf(unwrap(args[0])))
}

// quantityOf returns a quantity from a string or a number.
func quantityOf(v any) (q resource.Quantity, err error) {
	if _, isText := v.(string); !isText && !isNumber(v) {
		return q, errors.New("a quantity is a string or a number")
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return q, err
	}
	if err := jsontext.Decode(raw, &q); err != nil { // it limits the length
		return q, withoutValues(err)
	}
	return q, nil
}

func sumQuantities(steps *bound.Steps, args []ref.Val) (any, error) {
	total := resource.Quantity{}
	err := each(steps, args[0], func(element ref.Val) error {
		q, err := readQuantity(steps, element)
		if err != nil {
			return err
		}
		total.Add(q)
		return steps.Take("sumQuantities", perField)
	})
	return total.String(), err
}

func maxRequirements(steps *bound.Steps, args []ref.Val) (any, error) {
	const requests = "resourceRequest"
	var out map[string]any
	greatest := map[string]any{}
	err := each(steps, args[0], func(element ref.Val) error {
		next, err := plainFields(steps, element)
		if err != nil {
			return err
		}
		if out == nil {
			out = next
		}
		of, _ := next[requests].(map[string]any)
		for name, v := range of {
			if err := greater(greatest, name, v); err != nil {
				return fmt.Errorf("%s.%s: %w", requests, name, err)
			}
		}
		return steps.Take("maxRequirements", 2*perField*len(of))
	})
	if out == nil {
		out = map[string]any{}
	}
	if len(greatest) > 0 {
		out[requests] = greatest
	}
	return out, err
}

// greater sets a request to a quantity if that is greater.
func greater(requests map[string]any, name string, v any) error {
	q, err := quantityOf(v)
	if err != nil {
		return err
	}
	if before, there := requests[name]; there {
		if old, err := quantityOf(before); err != nil || old.Cmp(q) >= 0 {
			return err
		}
	}
	requests[name] = v
	return nil
}
