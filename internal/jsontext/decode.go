// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// errForeign: encoding/json must decode the text.
var errForeign = errors.New("left to encoding/json")

// Decode decodes a value into a new object, as k8s.io/apimachinery/pkg/util/json does, with a
// fraction of the allocations: strings share one copy of the text, and slices are allocated with
// their final length. Unlike apimachinery, it returns a [*QuantityError] for a quantity over the
// limits, and a [*MemoryError] for a value that would need too much memory.
func Decode(data []byte, object any) error {
	v := reflect.ValueOf(object)
	if v.Kind() != reflect.Pointer || v.IsNil() || !v.Elem().IsZero() {
		return foreign(data, object) // which has rules for existing values
	}
	if !Valid(data) {
		return utiljson.Unmarshal(data, object) // its error has the offset
	}
	d := decoder{text: string(data), data: data, free: memoryOf(data)}
	start := skipSpace(data, 0)
	err := d.value(v.Elem(), start, skip(data, start))
	if err == nil {
		return nil
	}
	v.Elem().SetZero()
	if overLimits(err) {
		return err
	}
	return foreign(data, object)
}

func overLimits(err error) bool {
	var quantity *QuantityError
	var memory *MemoryError
	return errors.As(err, &quantity) || errors.As(err, &memory)
}

// foreign decodes a text with encoding/json, after it has checked the limits.
func foreign(data []byte, object any) error {
	if err := checkQuantities(data); err != nil {
		return err
	}
	if _, err := Memory(data); err != nil {
		return err
	}
	return utiljson.Unmarshal(data, object)
}

// maxDepth is the maximum depth of the decoder. It finds the end of a value before it decodes the
// value. Without a limit, a recursive type would take the time of depth times length.
const maxDepth = 64

// decoder decodes parts of one text.
type decoder struct {
	text  string // also data, so that substrings need no copy
	data  []byte
	depth int
	free  int // bytes that may still be allocated
}

// take reserves memory for n values.
func (d *decoder) take(n int, each uintptr) error {
	if each > 0 && n > d.free/int(each) {
		return &MemoryError{memoryOf(d.data)}
	}
	d.free -= n * int(each)
	return nil
}

func (d *decoder) takeText(t reflect.Type, text []byte) error {
	size := len(text)
	if t != rawType {
		size = weigh(text, d.free)
	}
	return d.take(size, 1)
}

// value decodes the value from i to end. After an error that is not in [overLimits], encoding/json
// must decode the text.
func (d *decoder) value(v reflect.Value, i, end int) error {
	if d.depth++; d.depth > maxDepth {
		return errForeign
	}
	defer func() { d.depth-- }()
	for v.Kind() == reflect.Pointer {
		if d.data[i] == 'n' {
			v.SetZero()
			return nil
		}
		if v.IsNil() {
			if err := d.take(1, v.Type().Elem().Size()); err != nil {
				return err
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	l := layoutOf(v.Type())
	if l.unmarshaler || l.foreign {
		if err := d.takeText(v.Type(), d.data[i:end]); err != nil {
			return err
		}
	}
	switch {
	case l.unmarshaler:
		if v.Type() == quantityType {
			if err := checkQuantity(d.data[i:end]); err != nil {
				return err
			}
		}
		return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(d.data[i:end:end])
	case l.foreign && v.Kind() == reflect.Struct:
		return foreign(d.data[i:end], v.Addr().Interface())
	case l.foreign:
		return utiljson.Unmarshal(d.data[i:end], v.Addr().Interface())
	case d.data[i] == 'n':
		if v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
			v.SetZero()
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(v, l, i)
	case reflect.Slice:
		return d.slice(v, i)
	case reflect.Map:
		return d.dictionary(v, i)
	case reflect.String:
		s, err := d.str(i, end)
		if err == nil {
			v.SetString(s)
		}
		return err
	}
	return d.scalar(v, d.text[i:end])
}

func (d *decoder) scalar(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errForeign
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return errForeign
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return errForeign
		}
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil {
			return errForeign
		}
		v.SetFloat(f)
	default:
		return errForeign
	}
	return nil
}

// str returns the string from i to end. It does not copy a string without escapes.
func (d *decoder) str(i, end int) (string, error) {
	if d.data[i] != '"' {
		return "", errForeign
	}
	if plain(d.data[i:end]) {
		return d.text[i+1 : end-1], nil
	}
	return unescape(d.data[i:end])
}

func (d *decoder) open(i int, start byte) (Cursor, error) {
	if d.data[i] != start {
		return Cursor{}, errForeign
	}
	return Cursor{data: d.data, pos: i + 1, members: start == '{'}, nil
}

func (d *decoder) structure(v reflect.Value, l *layout, i int) error {
	members, err := d.open(i, '{')
	if err != nil {
		return err
	}
	var few [2]uint64
	seen := few[:]
	if len(l.fields) > 64*len(seen) {
		seen = make([]uint64, len(l.fields)/64+1)
	}
	for {
		p, ok := members.next()
		if !ok {
			return nil
		}
		key, err := d.str(p.key, p.keyEnd)
		if err != nil {
			return err
		}
		if n, known := l.byName[key]; known {
			// encoding/json has its own rules for a second value of a field.
			if seen[n/64]&(1<<(n%64)) != 0 {
				return errForeign
			}
			seen[n/64] |= 1 << (n % 64)
			if err := d.value(v.FieldByIndex(l.fields[n].index), p.begin, p.end); err != nil {
				return err
			}
		}
	}
}

func (d *decoder) slice(v reflect.Value, i int) error {
	elements, err := d.open(i, '[')
	if err != nil {
		return err
	}
	n := length(elements)
	if err := d.take(n, v.Type().Elem().Size()); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for k := range n {
		p, _ := elements.next()
		if err := d.value(v.Index(k), p.begin, p.end); err != nil {
			return err
		}
	}
	return nil
}

func length(c Cursor) (n int) {
	for {
		if _, ok := c.next(); !ok {
			return n
		}
		n++
	}
}

func (d *decoder) dictionary(v reflect.Value, i int) error {
	members, err := d.open(i, '{')
	if err != nil {
		return err
	}
	n, t := length(members), v.Type()
	if err := d.take(n, t.Key().Size()+t.Elem().Size()+mapCost); err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(t, n))
	names, simple := v.Addr().Interface().(*map[string]string)
	var key, elem reflect.Value
	if !simple {
		key, elem = reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	}
	for range n {
		p, _ := members.next()
		name, err := d.str(p.key, p.keyEnd)
		if err != nil {
			return err
		}
		if simple {
			s := ""
			if d.data[p.begin] != 'n' {
				if s, err = d.str(p.begin, p.end); err != nil {
					return err
				}
			}
			(*names)[name] = s
		} else {
			key.SetString(name)
			elem.SetZero()
			if err := d.value(elem, p.begin, p.end); err != nil {
				return err
			}
			v.SetMapIndex(key, elem)
		}
	}
	if v.Len() != n {
		return errForeign // a key was repeated
	}
	return nil
}
