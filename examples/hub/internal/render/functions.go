// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"
)

// functions returns the functions of templates. Functions of Go that create text have a limit:
// otherwise a few calls in a row could use all memory.
func (r *renderer) functions() template.FuncMap {
	m := &r.meter
	return template.FuncMap{
		"fromSecret":    r.from(secretKind),
		"fromConfigMap": r.from("ConfigMap"),
		"quote": func(text string) (string, error) {
			if !utf8.ValidString(text) {
				return "",
					errors.New("not valid UTF-8: use base64, for the data of a Secret or the binaryData of a ConfigMap")
			}
			data, err := json.Marshal(text)
			if err != nil {
				return "", err
			}
			return m.made(string(data))
		},
		"base64": func(text string) (string, error) { return m.made(base64.StdEncoding.EncodeToString([]byte(text))) },
		"indent": func(n int, text string) (string, error) {
			lines := strings.Count(text, "\n")
			if n = max(n, 0); lines == 0 {
				return text, nil
			} else if n > maxBytes/lines {
				return "", errTooMuch()
			}
			return m.made(strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n)))
		},
		"print":    m.limit(fmt.Sprint),
		"println":  m.limit(fmt.Sprintln),
		"html":     m.limit(template.HTMLEscaper),
		"js":       m.limit(template.JSEscaper),
		"urlquery": m.limit(template.URLQueryEscaper),
		"printf":   m.printf,
	}
}

func (r *renderer) from(kind string) func(namespace, name, key string) (string, error) {
	return func(namespace, name, key string) (value string, err error) {
		ref := Ref{kind, namespace, name, key}
		if value, ok := r.values[ref.String()]; ok {
			return value, nil
		}
		r.meter.wait(func() { value, err = r.objects.Value(ref) })
		if err == nil {
			r.values[ref.String()] = value
		}
		return value, err
	}
}

// limit limits a function with a result that is at most a constant factor longer than its
// arguments.
func (m *meter) limit(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		total := 0
		for _, arg := range args {
			total += sizeOf(arg)
		}
		if total > maxBytes {
			return "", errTooMuch()
		}
		return m.made(f(args...))
	}
}

var number = regexp.MustCompile(`\d+`)

// printf limits fmt.Sprintf, which creates its whole result before the length can be checked: a
// verb may have a width of a million, and several verbs may use the same argument.
func (m *meter) printf(format string, args ...any) (string, error) {
	const widest = 1_000_000 // the limit of fmt
	width, longest, total := 0, 0, len(format)
	for _, digits := range number.FindAllString(format, -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			n = widest
		}
		width = max(width, min(n, widest))
	}
	if strings.Contains(format, "*") {
		width = widest
	}
	for _, arg := range args {
		longest = max(longest, sizeOf(arg))
		total += sizeOf(arg)
	}
	// A verb has a width and a precision, and writes up to five bytes for each byte of the argument.
	// No verb writes more than 512 bytes for a number.
	if bound := len(format) + strings.Count(format, "%")*(2*width+5*longest+512) + total; bound > 64*maxBytes {
		return "", fmt.Errorf("the result may have more than %d bytes", maxBytes)
	}
	if err := m.spend(total / 64); err != nil {
		return "", err
	}
	return m.made(fmt.Sprintf(format, args...))
}

// sizeOf returns the number of bytes that a value prints.
func sizeOf(value any) int {
	if text, ok := value.(string); ok {
		return len(text)
	}
	return len(fmt.Sprint(value))
}
