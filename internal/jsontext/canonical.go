// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
)

// AppendCanonical appends the rest of the text in the form of RFC 8785: no space, members sorted by
// the UTF-16 code units of their names, strings with the fewest escapes, numbers as ECMAScript
// writes doubles. Of members with one name the last counts.
func (r *Reader) AppendCanonical(dst []byte) ([]byte, error) {
	dst = r.canonical(dst)
	return dst, r.End()
}

// canonical appends the value at the present position. After an error its result is invalid.
func (r *Reader) canonical(dst []byte) []byte {
	switch b := r.Peek(); {
	case b == '{':
		return r.canonicalObject(dst)
	case b == '[':
		dst = append(dst, b)
		first := true
		for r.Open('['); r.Element(); first = false {
			if !first {
				dst = append(dst, ',')
			}
			dst = r.canonical(dst)
		}
		return append(dst, ']')
	case b == '"':
		if raw := r.Value(); raw != nil {
			dst = AppendString(dst, string(Unquote(raw)))
		}
		return dst
	case b == '-' || isDigit(b):
		at := r.pos
		f, err := strconv.ParseFloat(string(r.Value()), 64)
		if err != nil {
			r.fail(at, "number beyond the range of a double")
		}
		return AppendCanonicalFloat(dst, f)
	default:
		return append(dst, r.Value()...)
	}
}

// canonicalMember has the name and position of a member that was appended in the order of the text.
type canonicalMember struct {
	name     []uint16
	from, to int
}

func (r *Reader) canonicalObject(dst []byte) []byte {
	var buf [8]canonicalMember
	members, sorted := buf[:0], true
	dst = append(dst, '{')
	start := len(dst)
	for r.Open('{'); r.Member(); {
		if len(members) > 0 {
			dst = append(dst, ',')
		}
		name := string(r.Key)
		m := canonicalMember{name: utf16.Encode([]rune(name)), from: len(dst)}
		if n := len(members); n > 0 && slices.Compare(members[n-1].name, m.name) >= 0 {
			sorted = false
		}
		dst = r.canonical(append(AppendString(dst, name), ':'))
		m.to = len(dst)
		members = append(members, m)
	}
	if !sorted {
		dst = reorder(dst, start, members)
	}
	return append(dst, '}')
}

func reorder(dst []byte, start int, members []canonicalMember) []byte {
	text := slices.Clone(dst[start:])
	dst = dst[:start]
	// The sort is stable, so that the last of several members with one name stays the last.
	slices.SortStableFunc(members, func(a, b canonicalMember) int { return slices.Compare(a.name, b.name) })
	for i, m := range members {
		if i+1 < len(members) && slices.Equal(m.name, members[i+1].name) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, text[m.from-start:m.to-start]...)
	}
	return dst
}

// AppendCanonicalFloat appends a double as ECMAScript's Number::toString writes it.
func AppendCanonicalFloat(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	switch {
	case f == 0: // also for minus zero
		return append(dst, '0')
	case 1e-6 <= abs && abs < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of the exponent, ECMAScript no leading zero.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
