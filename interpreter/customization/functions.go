// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/celbound"
)

// functions returns the functions of expressions in addition to those of CEL.
func functions() []celbound.Function {
	dyn, text, list, names := cel.DynType, cel.StringType, cel.ListType(cel.DynType), cel.ListType(cel.StringType)
	fields := cel.MapType(text, dyn)
	member := func(name string, result *cel.Type, call function, args ...*cel.Type) celbound.Function {
		overload := cel.MemberOverload("list_"+name, append([]*cel.Type{list}, args...), result)
		return celbound.Function{Name: name, Call: call.ref, Overloads: []cel.FunctionOpt{overload}}
	}
	global := func(name string, result *cel.Type, call function, args ...*cel.Type) celbound.Function {
		overloads := []cel.FunctionOpt{cel.Overload(name, args, result)}
		return celbound.Function{Name: name, Call: call.ref, Overloads: overloads}
	}
	reflect := global("reflectStatus", fields, reflectStatus, dyn, names)
	reflect.Overloads = append(reflect.Overloads, cel.Overload("reflectStatus_all", []*cel.Type{dyn}, fields))
	return []celbound.Function{
		member("values", list, values, text),
		member("sum", dyn, sum),
		member("sums", fields, sums, names),
		member("sumQuantities", text, sumQuantities),
		member("min", cel.OptionalType(dyn), least),
		member("max", cel.OptionalType(dyn), greatest),
		global("sumFields", fields, sumFields, list),
		global("pick", fields, pick, dyn, names),
		global("merge", fields, merge, list),
		global("omitEmpty", fields, omitEmpty, dyn),
		global("condition", cel.MapType(text, dyn), condition, dyn, text),
		reflect,
		global("observedGeneration", cel.IntType, observedGeneration, dyn, list),
		global("aggregateConditions", list, aggregateConditions, dyn, list, names),
		global("joinConditions", list, joinConditions, list),
		global("latestConditions", list, latestConditions, list, text),
		global("podRequirements", fields, podRequirements, dyn),
		global("maxRequirements", fields, maxRequirements, list),
		global("podDependencies", list, podDependencies, dyn, dyn),
		global("references", list, references, dyn, text, text, names),
		global("quantity", cel.DoubleType, quantity, dyn),
		global("integer", cel.IntType, integerOf, dyn, cel.IntType),
	}
}

// function is a function of CEL with a result of CEL or of JSON.
type function func(steps *bound.Steps, args []ref.Val) (any, error)

func (f function) ref(steps *bound.Steps, args []ref.Val) ref.Val {
	out, err := f(steps, args)
	if err != nil {
		return types.WrapErr(err)
	}
	return value(out)
}

// each calls f with each element of a list.
func each(steps *bound.Steps, list ref.Val, f func(element ref.Val) error) error {
	l, ok := unwrap(list).(traits.Lister)
	if !ok {
		return errors.New("a value is not a list")
	}
	if err := steps.Take("a list", perElement*sizeOf(l)); err != nil {
		return err
	}
	for i := l.Iterator(); i.HasNext() == types.True; {
		if err := f(i.Next()); err != nil {
			return err
		}
	}
	return nil
}

func values(steps *bound.Steps, args []ref.Val) (any, error) {
	path, err := splitPath(string(args[1].(types.String)))
	if err != nil {
		return nil, err
	}
	found := []ref.Val{}
	err = each(steps, args[0], func(element ref.Val) error {
		if v := lookup(element, path); v != nil && v != types.String("") {
			found = append(found, v)
		}
		return steps.Take("values", perValue*len(path))
	})
	return found, err
}

func sum(steps *bound.Steps, args []ref.Val) (any, error) {
	var total ref.Val = types.IntZero
	err := each(steps, args[0], func(element ref.Val) (err error) {
		total, err = added(total, element)
		return err
	})
	return total, err
}

// added adds numbers. The sum of an int and a double is a double.
func added(a, b ref.Val) (ref.Val, error) {
	switch b := b.(type) {
	case types.Int:
		if a, ok := a.(types.Double); ok {
			return a + types.Double(b), nil
		}
		n := int64(a.(types.Int))
		if b > 0 && n > math.MaxInt64-int64(b) || b < 0 && n < math.MinInt64-int64(b) {
			return nil, errors.New("the sum is too large")
		}
		return types.Int(n) + b, nil
	case types.Double:
		if a, ok := a.(types.Int); ok {
			return types.Double(a) + b, nil
		}
		return a.(types.Double) + b, nil
	}
	return nil, fmt.Errorf("%s is not a number: it cannot be added", typeOf(b))
}

func sums(steps *bound.Steps, args []ref.Val) (any, error) {
	names, err := paths(steps, args[1])
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, path := range names {
		var total ref.Val = types.IntZero
		n := 0
		err := each(steps, args[0], func(element ref.Val) (err error) {
			if v := lookup(element, path); v != nil && v != types.String("") {
				if total, err = added(total, v); err != nil {
					return fmt.Errorf("[%d].%s: %w", n, fieldOf(path), err)
				}
			}
			n++
			return steps.Take("sums", perValue*len(path))
		})
		if err != nil {
			return nil, err
		}
		if err := put(out, path, total); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// put sets the field at a path, and creates the objects around it. No path may begin with another.
func put(object map[string]any, path []string, v any) error {
	last := len(path) - 1
	for i, name := range path[:last] {
		in, there := object[name]
		if !there {
			in = map[string]any{}
			object[name] = in
		}
		var ok bool
		if object, ok = in.(map[string]any); !ok {
			return fmt.Errorf("the path %s is in the path %s", fieldOf(path), fieldOf(path[:i+1]))
		}
	}
	if _, there := object[path[last]]; there {
		return fmt.Errorf("the path %s is there twice, or in another path", fieldOf(path))
	}
	object[path[last]] = v
	return nil
}

func least(steps *bound.Steps, args []ref.Val) (any, error) {
	return extreme(steps, args[0], types.IntNegOne)
}
func greatest(steps *bound.Steps, args []ref.Val) (any, error) {
	return extreme(steps, args[0], types.IntOne)
}

// extreme returns an optional: the element of a list that compares as wanted to all others.
func extreme(steps *bound.Steps, list ref.Val, wanted types.Int) (any, error) {
	var found ref.Val
	err := each(steps, list, func(element ref.Val) error {
		if found == nil {
			found = element
			return nil
		}
		comparer, ok := element.(traits.Comparer)
		if !ok {
			return fmt.Errorf("%s cannot be compared", typeOf(element))
		}
		if s, ok := element.(types.String); ok {
			if err := steps.Take("a comparison", len(s)/perByte); err != nil {
				return err
			}
		}
		switch order := comparer.Compare(found); {
		case types.IsUnknownOrError(order):
			return fmt.Errorf("%s and %s cannot be compared", typeOf(found), typeOf(element))
		case order == wanted:
			found = element
		}
		return nil
	})
	if err != nil || found == nil {
		return types.OptionalNone, err
	}
	return types.OptionalOf(found), nil
}

// sumFields takes values that are not numbers from the last object.
func sumFields(steps *bound.Steps, args []ref.Val) (any, error) {
	out := map[string]any{}
	err := each(steps, args[0], func(element ref.Val) error {
		object, err := plainFields(steps, element)
		if err != nil {
			return err
		}
		return addFields(out, object)
	})
	return out, err
}

func addFields(to, from map[string]any) error {
	for name, v := range from {
		before := to[name]
		switch v := v.(type) {
		case map[string]any:
			in, ok := before.(map[string]any)
			if !ok {
				in = map[string]any{}
				to[name] = in
			}
			if err := addFields(in, v); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case int64, float64:
			if !isNumber(before) {
				before = int64(0)
			}
			total, err := added(value(before), value(v))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			to[name] = total.Value()
		default:
			to[name] = v
		}
	}
	return nil
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// plainFields returns an object as decoded JSON. It is empty for null and for an optional without a
// value.
func plainFields(steps *bound.Steps, v ref.Val) (map[string]any, error) {
	v = unwrap(v)
	if v == nil || v == types.NullValue {
		return map[string]any{}, nil
	}
	out, err := plain(steps, v)
	if err != nil {
		return nil, err
	}
	fields, ok := out.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", typeOf(v))
	}
	return fields, nil
}

func pick(steps *bound.Steps, args []ref.Val) (any, error) { return picked(steps, args[0], args[1]) }

func picked(steps *bound.Steps, object, list ref.Val) (map[string]any, error) {
	names, err := paths(steps, list)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, path := range names {
		if v := lookup(object, path); v != nil {
			if err := put(out, path, v); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func merge(steps *bound.Steps, args []ref.Val) (any, error) {
	out := map[string]any{}
	err := each(steps, args[0], func(element ref.Val) error {
		object, err := plainFields(steps, element)
		if err != nil {
			return err
		}
		mergeInto(out, object)
		return nil
	})
	return out, err
}

func omitEmpty(steps *bound.Steps, args []ref.Val) (any, error) {
	object, err := plainFields(steps, args[0])
	if err != nil {
		return nil, err
	}
	out, _ := withoutEmpty(object).(map[string]any)
	return out, nil
}

// withoutEmpty returns nil for an empty value. Elements of a list are kept.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			if field = withoutEmpty(field); field != nil {
				out[name] = field
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		return v
	}
	if v == int64(0) || v == float64(0) || v == "" {
		return nil
	}
	return v
}
