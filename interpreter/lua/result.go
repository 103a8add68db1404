// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// maxDepth is the limit of nested tables in a result, as in package encoding/json for decoding.
const maxDepth = 10_000

// emptyKind has a bit for each kind of empty values at a path.
type emptyKind byte

const (
	emptyObject emptyKind = 1 << iota
	emptyList
)

// statusPart is the part of a result that is a status.
type statusPart byte

const (
	noStatus       statusPart = iota
	statusOfObject            // the member status
	onlyStatus                // all
)

// encoder converts a result to values that package encoding/json encodes.
//
// An empty table can be an object or a list: see the package documentation. For a table that the
// script has made, an element of a list has the path of its list.
type encoder struct {
	meter   *meter
	status  statusPart
	empties map[string]emptyKind
	exact   map[float64]any  // large numbers of the arguments and the script, which Lua may not represent exactly
	unclear map[float64]bool // several numbers have the same float64
	inside  map[*glua.LTable]bool
	path    []byte // of the members: a NUL and the name for each
}

func newEncoder(m *meter, status statusPart, arguments ...any) (*encoder, error) {
	e := &encoder{
		meter: m, status: status, empties: map[string]emptyKind{},
		exact: map[float64]any{}, unclear: map[float64]bool{}, inside: map[*glua.LTable]bool{},
	}
	for _, value := range append(arguments, m.constants...) {
		if err := e.learn(value); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *encoder) learn(value any) error {
	note := func(kind emptyKind) error {
		if !e.meter.charge(memberCost + len(e.path)) {
			return e.meter.err
		}
		e.empties[string(e.path)] |= kind
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return note(emptyObject)
		}
		before := len(e.path)
		for name, member := range v {
			e.path = append(append(e.path, 0), name...)
			if err := e.learn(member); err != nil {
				return err
			}
			e.path = e.path[:before]
		}
	case []any:
		if len(v) == 0 {
			return note(emptyList)
		}
		for _, element := range v {
			if err := e.learn(element); err != nil {
				return err
			}
		}
	case int64:
		if v > maxExact || v < -maxExact {
			return e.learnNumber(float64(v), v)
		}
	case float64:
		switch {
		case math.Abs(v) <= maxExact || v != math.Trunc(v):
		case math.Abs(v) < 1<<63:
			return e.learnNumber(v, int64(v))
		default:
			return e.learnNumber(v, v)
		}
	}
	return nil
}

func (e *encoder) learnNumber(n float64, v any) error {
	if !e.meter.charge(memberCost) {
		return e.meter.err
	}
	if other, ok := e.exact[n]; ok && other != v {
		e.unclear[n] = true
	}
	e.exact[n] = v
	return nil
}

// encode returns a result as decoded JSON, or nil for an omitted value. was is the value at the same
// path before the call. It distinguishes a large number from others with the same float64.
func (e *encoder) encode(value glua.LValue, was any) (any, error) {
	if !e.meter.spend(1) || !e.meter.charge(stringCost) {
		return nil, e.meter.err
	}
	switch v := value.(type) {
	case glua.LBool:
		return bool(v), nil
	case glua.LString:
		if !e.meter.charge(len(v)) {
			return nil, e.meter.err
		}
		return string(v), nil
	case glua.LNumber:
		return e.number(float64(v), was)
	case *glua.LTable:
		return e.table(v, was)
	}
	return nil, fmt.Errorf("a %s is not a JSON value", value.Type())
}

func (e *encoder) number(n float64, was any) (any, error) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, fmt.Errorf("%v is not a JSON value", n)
	}
	switch v := was.(type) {
	case int64:
		if float64(v) == n {
			return v, nil
		}
	case float64:
		if v == n {
			return v, nil
		}
	}
	if i, ok := whole(n); ok {
		return i, nil
	}
	if e.unclear[n] {
		return nil, fmt.Errorf(
			"several integers of the arguments or the script are %v in Lua: the script must not return them", n)
	}
	if v, ok := e.exact[n]; ok {
		return v, nil
	}
	if n == math.Trunc(n) && math.Abs(n) < 1<<63 {
		return int64(n), nil
	}
	return n, nil
}

func (e *encoder) table(t *glua.LTable, was any) (any, error) {
	if e.inside[t] {
		return nil, errors.New("a table contains itself")
	}
	if len(e.inside) >= maxDepth {
		return nil, fmt.Errorf("the result has more than %d tables in tables", maxDepth)
	}
	e.inside[t] = true
	defer delete(e.inside, t)
	key, _ := t.Next(glua.LNil)
	switch key.Type() {
	case glua.LTNil:
		return e.empty(t), nil
	case glua.LTNumber:
		elements, _ := was.([]any)
		return e.list(t, elements)
	case glua.LTString:
		members, _ := was.(map[string]any)
		return e.members(t, members)
	}
	return nil, fmt.Errorf("a table has a key of type %s", key.Type())
}

func (e *encoder) empty(t *glua.LTable) any {
	kind := e.empties[string(e.path)]
	switch {
	case e.inStatus():
		return nil
	case t.Metatable == e.meter.object, t.Metatable != e.meter.list && kind&emptyObject != 0:
		return map[string]any{}
	case t.Metatable == e.meter.list, kind == emptyList:
		return []any{}
	}
	return nil
}

func (e *encoder) inStatus() bool {
	rest, ok := strings.CutPrefix(string(e.path), "\x00status")
	return e.status == onlyStatus || e.status == statusOfObject && ok && (rest == "" || rest[0] == 0)
}

func (e *encoder) list(t *glua.LTable, was []any) (any, error) {
	n := t.Len()
	if !e.meter.charge(elementCost * n) {
		return nil, e.meter.err
	}
	out := make([]any, 0, n)
	expected := glua.LNumber(1)
	for key, value := t.Next(glua.LNil); key != glua.LNil; key, value = t.Next(key) {
		if key.Type() != glua.LTNumber {
			return nil, errMixed
		}
		if key != expected {
			return nil, errors.New("a list has gaps")
		}
		var before any
		if i := int(expected) - 1; i < len(was) {
			before = was[i]
		}
		expected++
		element, err := e.encode(value, before)
		if err != nil {
			return nil, at("["+key.String()+"]", err)
		}
		if element != nil {
			out = append(out, element)
		}
	}
	return out, nil
}

func (e *encoder) members(t *glua.LTable, was map[string]any) (any, error) {
	out := map[string]any{}
	before := len(e.path)
	for key, value := t.Next(glua.LNil); key != glua.LNil; key, value = t.Next(key) {
		name, ok := key.(glua.LString)
		if !ok {
			return nil, errMixed
		}
		if !e.meter.charge(memberCost + len(name)) {
			return nil, e.meter.err
		}
		e.path = append(append(e.path, 0), name...)
		member, err := e.encode(value, was[string(name)])
		e.path = e.path[:before]
		if err != nil {
			return nil, at("."+shorten(string(name)), err)
		}
		if member != nil {
			out[string(name)] = member
		}
	}
	return out, nil
}

var errMixed = errors.New("a table has both elements and members")

// pathError is an error in a value of a result.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return "result" + e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// at adds a part to the path of an error.
func at(part string, err error) error {
	const longest = 1000
	var inner *pathError
	if !errors.As(err, &inner) {
		return &pathError{path: part, err: err}
	}
	if len(inner.path) < longest {
		inner.path = part + inner.path
	}
	return inner
}

// decode converts a table to a value of a Go type, which is a struct or a list.
func (m *meter) decode(t *glua.LTable, into any) error {
	raw, err := m.encode(t, reflect.TypeOf(into).Elem().Kind() == reflect.Struct, noStatus, nil)
	if err != nil {
		return err
	}
	// A small JSON value can be a large struct, such as a container.
	const valueCost = 1 << 10
	if !m.charge(valueCost * jsontext.Count(raw, m.limits.memory/valueCost+1)) {
		return m.err
	}
	return jsontext.Decode(raw, into)
}

// encode returns a table as JSON. object is whether an empty table is an object. was is the value at
// the path of the result before the call, or nil.
func (m *meter) encode(t *glua.LTable, object bool, status statusPart, was any, arguments ...any) ([]byte, error) {
	e, err := newEncoder(m, status, arguments...)
	if err != nil {
		return nil, err
	}
	value, err := e.encode(t, was)
	if err != nil {
		return nil, err
	}
	if key, _ := t.Next(glua.LNil); key == glua.LNil {
		if value = any([]any{}); object {
			value = map[string]any{}
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if !m.charge(len(raw)) {
		return nil, m.err
	}
	return raw, nil
}

// integer returns a result that is a number from 0 to 2^31-1.
func integer(value glua.LValue) (int32, error) {
	n, ok := value.(glua.LNumber)
	if !ok {
		return 0, fmt.Errorf("got %s, expected a number%s", typeName(value), missing(value))
	}
	i, ok := whole(float64(n))
	if !ok || i < 0 || i > math.MaxInt32 {
		return 0, fmt.Errorf("got %s, expected an integer from 0 to %d", n, math.MaxInt32)
	}
	return int32(i), nil
}
