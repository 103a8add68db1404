// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
)

// Canonical returns a text in the form of RFC 8785: no space, members sorted by the UTF-16 code
// units of their names, strings with the fewest escapes, numbers as ECMAScript writes doubles. Of
// members with one name the last counts.
func Canonical(data []byte) ([]byte, error) {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return appendCanonical(nil, value), nil
}

func appendCanonical(dst []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.SortedFunc(maps.Keys(v), compareUTF16) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(append(AppendString(dst, name), ':'), v[name])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, element)
		}
		return append(dst, ']')
	case string:
		return AppendString(dst, v)
	case float64:
		return AppendCanonicalFloat(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	}
	return append(dst, "null"...)
}

func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
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
