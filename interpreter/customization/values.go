// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/celbound"
	"github.com/spokewire/sdk-go/internal/jsontext"
)

const (
	perValue, perField = 8, 32 // steps for a value of a result, and for a field of an object
	perElement         = 32    // steps for an element of a list that a function reads
	perByte            = 4     // bytes of text for each step
	mostDepth          = 1_000 // of nested values
)

// unwrap returns the value in an optional, or nil if it has no value.
func unwrap(v ref.Val) ref.Val {
	for {
		o, ok := v.(*types.Optional)
		if !ok {
			return v
		}
		if !o.HasValue() {
			return nil
		}
		v = o.GetValue()
	}
}

// plain returns a value as decoded JSON: nil, bool, int64, float64, string, []any or
// map[string]any. It takes steps, since a list of CEL may have the same large value many times.
func plain(steps *bound.Steps, v ref.Val) (any, error) { return plainAt(steps, v, 0) }

func plainAt(steps *bound.Steps, v ref.Val, depth int) (any, error) {
	if depth > mostDepth {
		return nil, fmt.Errorf("more than %d values are nested", mostDepth)
	}
	if err := steps.Take("a result", perValue); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("the number %d is too large", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v is not a JSON number", f)
		}
		return float64(v), nil
	case types.String:
		return string(v), steps.Take("a result", len(v)/perByte)
	case traits.Lister:
		return plainList(steps, v, depth)
	case traits.Mapper:
		return plainObject(steps, v, depth)
	case *types.Optional:
		return nil, errors.New("an optional is not a value: write ?key or orValue")
	}
	return nil, fmt.Errorf("%s is not a JSON value: convert it with string or int", typeOf(v))
}

func plainList(steps *bound.Steps, v traits.Lister, depth int) ([]any, error) {
	size := sizeOf(v)
	if err := steps.Take("a result", perValue*size); err != nil {
		return nil, err
	}
	out := make([]any, 0, size)
	for i := v.Iterator(); i.HasNext() == types.True; {
		element, err := plainAt(steps, i.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, element)
	}
	return out, nil
}

func plainObject(steps *bound.Steps, v traits.Mapper, depth int) (map[string]any, error) {
	size := sizeOf(v)
	if err := steps.Take("a result", perField*size); err != nil {
		return nil, err
	}
	out := make(map[string]any, size)
	for i := v.Iterator(); i.HasNext() == types.True; {
		key := i.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a key of an object is %s: write a string", typeOf(key))
		}
		if err := steps.Take("a result", len(name)/perByte); err != nil {
			return nil, err
		}
		field, err := plainAt(steps, v.Get(key), depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[string(name)] = field
	}
	return out, nil
}

func sizeOf(v traits.Sizer) int {
	size, _ := v.Size().(types.Int)
	return int(size)
}

// value converts a JSON value, which may contain CEL values.
func value(v any) ref.Val { return types.DefaultTypeAdapter.NativeToValue(v) }

// lookup returns the value at a path, or nil if it is null or does not exist.
func lookup(v ref.Val, path []string) ref.Val {
	for _, name := range path {
		object, ok := unwrap(v).(traits.Mapper)
		if !ok {
			return nil
		}
		if v, ok = object.Find(types.String(name)); !ok {
			return nil
		}
	}
	if v = unwrap(v); v == nil || v == types.NullValue {
		return nil
	}
	return v
}

// integer returns the integer at a path, also from a string, or 0 without one.
func integer(v ref.Val, path ...string) int64 {
	switch v := lookup(v, path).(type) {
	case types.Int:
		return int64(v)
	case types.String:
		n, _ := strconv.ParseInt(string(v), 10, 64)
		return n
	}
	return 0
}

func text(v ref.Val, path ...string) string {
	s, _ := lookup(v, path).(types.String)
	return string(s)
}

// decode decodes a result into a Go type without unknown fields. names are the fields of the result,
// or of the objects in a list, for the error.
func decode(v, into any, names string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := jsontext.Decode(raw, into); err != nil { // it limits quantities, too
		return withoutValues(err)
	}
	unknown, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		return withoutValues(err)
	}
	var field kjson.FieldError
	if len(unknown) == 0 || !errors.As(unknown[0], &field) {
		return errors.Join(unknown...)
	}
	path := pathOf(field.FieldPath())
	if _, isList := v.([]any); isList && len(path) > 2 || !isList && len(path) > 1 {
		return fmt.Errorf("unknown field %s", field.FieldPath())
	}
	return fmt.Errorf("unknown field %s: write %s", field.FieldPath(), names)
}

// withoutValues returns an error of a decoder without the values that it quotes.
func withoutValues(err error) error {
	var quantity *jsontext.QuantityError
	if errors.As(err, &quantity) {
		return errors.New("a quantity is too long, or its exponent is too large")
	}
	if errors.Is(err, resource.ErrFormatWrong) {
		return errors.New("a quantity must be a number with a unit, such as 100m or 1Gi")
	}
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	got, want := typesOf(kind)
	if kind.Field == "" {
		return fmt.Errorf("got %s, expected %s", got, want)
	}
	return fmt.Errorf("%s: got %s, expected %s", kind.Field, got, want)
}

// typesOf returns the actual and the expected type in an error of a decoder, with their articles.
func typesOf(err *json.UnmarshalTypeError) (got, want string) {
	got, _, _ = strings.Cut(err.Value, " ") // a number follows
	switch err.Type.Kind() {
	case reflect.Struct, reflect.Map, reflect.Pointer:
		want = "an object"
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "a bool"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	default:
		want = "an int"
	}
	if got == "array" {
		got = "list"
	}
	return celbound.TypeName(got), want
}

// mergeRaw applies a merge patch (RFC 7386) to the text of an object. Other fields keep their text.
func mergeRaw(raw []byte, patch map[string]any) ([]byte, error) {
	out := []byte{'{'}
	add := func(key, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	left := maps.Clone(patch)
	for members := jsontext.Open(raw); members.Next(); {
		key, value := members.Key, members.Value
		name, _ := jsontext.Text(key)
		change, named := patch[name]
		delete(left, name)
		switch object, isObject := change.(map[string]any); {
		case !named:
			add(key, value)
		case change == nil: // it is removed
		case isObject:
			if jsontext.KindOf(value) != jsontext.Object {
				value = []byte("{}")
			}
			merged, err := mergeRaw(value, object)
			if err != nil {
				return nil, err
			}
			add(key, merged)
		default:
			changed, err := json.Marshal(change)
			if err != nil {
				return nil, err
			}
			add(key, changed)
		}
	}
	return appendFields(out, left)
}

// appendFields adds new fields to the text of an object, and closes it.
func appendFields(out []byte, fields map[string]any) ([]byte, error) {
	object := make(map[string]any, len(fields))
	mergeInto(object, fields)
	if len(object) == 0 {
		return append(out, '}'), nil
	}
	added, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if len(out) > 1 {
		out = append(out, ',')
	}
	return append(out, added[1:]...), nil
}

// mergeInto applies a merge patch to a decoded object.
func mergeInto(object, patch map[string]any) {
	for name, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, name)
		case map[string]any:
			in, ok := object[name].(map[string]any)
			if !ok {
				in = make(map[string]any, len(v))
				object[name] = in
			}
			mergeInto(in, v)
		default:
			object[name] = v
		}
	}
}
