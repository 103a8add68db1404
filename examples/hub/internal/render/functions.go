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

// functions returns what templates can call. Those that make texts of others are Go's own with a limit: a few of them, one after another, would else take
// all memory.
func (r *renderer) functions() template.FuncMap {
	m := &r.meter
	return template.FuncMap{
		"fromSecret":    r.from(secretKind),
		"fromConfigMap": r.from("ConfigMap"),
		"quote": func(text string) (string, error) {
			if !utf8.ValidString(text) {
				return "", errors.New("it is no text, since its bytes are not valid UTF-8: use base64, for the data of a Secret or the binaryData of a ConfigMap")
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

// limit limits a function whose result is no more than some times as long as its arguments.
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

// printf limits fmt.Sprintf, which makes all of its result before anybody can see how long it is: a verb may have a width of a million, and may name the same
// argument as others do.
func (m *meter) printf(format string, args ...any) (string, error) {
	const widest = 1_000_000 // as fmt has it
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
	// A verb has a width and a precision, and makes up to five bytes of one; none makes more than 512 of a number.
	if bound := len(format) + strings.Count(format, "%")*(2*width+5*longest+512) + total; bound > 64*maxBytes {
		return "", fmt.Errorf("it may make more than %d bytes", maxBytes)
	}
	if err := m.spend(total / 64); err != nil {
		return "", err
	}
	return m.made(fmt.Sprintf(format, args...))
}

// sizeOf returns how many bytes a value prints.
func sizeOf(value any) int {
	if text, ok := value.(string); ok {
		return len(text)
	}
	return len(fmt.Sprint(value))
}
