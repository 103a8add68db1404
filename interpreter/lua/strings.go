// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// openString replaces the functions that match patterns or make long strings. Karmada has no dump,
// gsub and rep either.
func (m *meter) openString(module *glua.LTable) *glua.LTable {
	for _, name := range []string{"dump", "gsub", "rep"} {
		m.forbid(module, name, "string."+name)
	}
	for _, name := range []string{"byte", "lower", "reverse", "sub", "upper"} {
		m.wrap(module, name, func(l *glua.LState) {
			n := len(m.checkText(l, 1))
			m.check(m.charge(stringCost) && m.spend(n/64))
			if name != "byte" && name != "sub" {
				m.check(m.charge(4 * n)) // upper case letters may have more bytes
			}
		})
	}
	m.wrap(module, "char", func(l *glua.LState) { m.check(m.text(2 * l.GetTop())) })
	m.set(module, "find", m.find)
	m.set(module, "format", m.format)
	m.set(module, "gmatch", m.gmatch)
	m.set(module, "gfind", m.gmatch)
	m.set(module, "match", m.match)
	// Scripts can change the library, but not the metatable of strings: no value has metamethods.
	metatable := m.state.NewTable()
	metatable.RawSetString("__index", module)
	m.state.SetMetatable(glua.LString(""), metatable)
	return module
}

// checkText returns a string argument of at most maxString bytes.
func (m *meter) checkText(l *glua.LState, i int) string {
	s := l.CheckString(i)
	if len(s) > maxString {
		l.ArgError(i, fmt.Sprintf("a string of %d bytes: the limit is %d", len(s), maxString))
	}
	return s
}

// start returns the index, from 0, for an argument with an index from 1 or from the end.
func start(l *glua.LState, i int, s string) int {
	at := l.OptInt(i, 1)
	if at < 0 {
		at = len(s) + at + 1
	}
	return max(at-1, 0)
}

func (m *meter) find(l *glua.LState) int {
	s, p := m.checkText(l, 1), m.checkText(l, 2)
	at := start(l, 3, s)
	switch {
	case p == "":
		l.Push(glua.LNumber(1))
		l.Push(glua.LNumber(0))
		return 2
	case glua.LVAsBool(l.Get(4)):
		m.check(m.spend(len(s) / 64))
		at = min(at, len(s))
		found := strings.Index(s[at:], p)
		if found < 0 {
			l.Push(glua.LNil)
			return 1
		}
		l.Push(glua.LNumber(at + found + 1))
		l.Push(glua.LNumber(at + found + len(p)))
		return 2
	}
	matcher := m.matcher(l, p, s)
	from, to, ok := matcher.search(at)
	if !ok {
		l.Push(glua.LNil)
		return 1
	}
	l.Push(glua.LNumber(from + 1))
	l.Push(glua.LNumber(to))
	return 2 + matcher.push(0)
}

func (m *meter) match(l *glua.LState) int {
	s, p := m.checkText(l, 1), m.checkText(l, 2)
	at := start(l, 3, s)
	matcher := m.matcher(l, p, s)
	from, to, ok := matcher.search(at)
	if !ok {
		l.Push(glua.LNil)
		return 1
	}
	return matcher.pushOrWhole(from, to)
}

func (m *meter) gmatch(l *glua.LState) int {
	s, p := m.checkText(l, 1), m.checkText(l, 2)
	matcher := m.matcher(l, p, s)
	at := 0
	m.check(m.charge(4 * functionCost))
	l.Push(l.NewFunction(func(*glua.LState) int {
		from, to, ok := matcher.search(at)
		if !ok {
			at = len(s) + 1
			return 0
		}
		at = max(from+1, to)
		if matcher.pattern.anchored {
			at = len(s) + 1
		}
		return matcher.pushOrWhole(from, to)
	}))
	return 1
}

// format formats values as package fmt does, like gopher-lua. Unlike gopher-lua, it raises an error
// for a value that does not fit.
func (m *meter) format(l *glua.LState) int {
	layout := m.checkText(l, 1)
	var out strings.Builder
	argument := 1
	for {
		i := strings.IndexByte(layout, '%')
		if i < 0 {
			break
		}
		out.WriteString(layout[:i])
		layout = layout[i+1:]
		if strings.HasPrefix(layout, "%") {
			out.WriteByte('%')
			layout = layout[1:]
			continue
		}
		n := directive(l, layout)
		argument++
		value := l.Get(argument)
		m.check(m.charge(8*len(glua.LVAsString(value)) + 4*maxWidth))
		out.WriteString(formatted(l, argument, layout[:n-1], layout[n-1], value))
		layout = layout[n:]
		m.check(m.spend(1))
		if out.Len() > maxString {
			break
		}
	}
	out.WriteString(layout)
	m.check(m.charge(out.Len()) && m.text(out.Len()))
	l.Push(glua.LString(out.String()))
	return 1
}

// maxWidth is the limit for the width and the precision of a value.
const maxWidth = 99

// directive returns the length of a directive of string.format, without its %.
func directive(l *glua.LState, layout string) int {
	const digits = "0123456789"
	i := len(layout) - len(strings.TrimLeft(layout, "-+ #0"))
	width := len(layout[i:]) - len(strings.TrimLeft(layout[i:], digits))
	i += width
	precision := 0
	if i < len(layout) && layout[i] == '.' {
		i++
		precision = len(layout[i:]) - len(strings.TrimLeft(layout[i:], digits))
		i += precision
	}
	if i > 10 || width > 2 || precision > 2 {
		l.RaiseError("invalid format: width and precision have at most two digits")
	}
	if i >= len(layout) || strings.IndexByte("cdiouxXeEfFgGqs", layout[i]) < 0 {
		l.RaiseError("invalid format: unknown verb in %q", "%"+layout[:min(i+1, len(layout))])
	}
	return i + 1
}

func formatted(l *glua.LState, argument int, flags string, verb byte, value glua.LValue) string {
	if argument > l.GetTop() {
		l.ArgError(argument, "no value")
	}
	switch verb {
	case 's', 'q':
		return fmt.Sprintf("%"+flags+string(verb), value.String())
	case 'x', 'X':
		if text, ok := value.(glua.LString); ok { // as bytes
			return fmt.Sprintf("%"+flags+string(verb), string(text))
		}
	}
	number := l.CheckNumber(argument)
	switch verb {
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return fmt.Sprintf("%"+flags+string(verb), float64(number))
	case 'i', 'u':
		verb = 'd'
	}
	return fmt.Sprintf("%"+flags+string(verb), int64(number))
}
