// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"math/bits"
	"math/rand/v2"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"k8s.io/utils/clock"
)

// forbidden are functions that Karmada does not offer either, or that write to the output of the
// process.
var forbidden = []string{
	"collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "module", "newproxy",
	"rawequal", "rawget", "rawset", "setfenv", "setmetatable", "_printregs",
}

// openLibraries opens the libraries that scripts may use, with their functions bounded.
func (m *meter) openLibraries(now clock.PassiveClock) {
	l := m.state
	open := func(function glua.LGFunction) *glua.LTable {
		l.Push(l.NewFunction(function))
		l.Call(0, 1)
		module, _ := l.Get(-1).(*glua.LTable)
		l.Pop(1)
		return module
	}
	global := open(glua.OpenBase)
	for _, name := range forbidden {
		m.forbid(global, name, name)
	}
	m.set(global, "pcall", m.pcall)
	m.set(global, "xpcall", m.xpcall)
	m.set(global, "print", func(*glua.LState) int { return 0 })
	modules := map[string]glua.LValue{
		"table": m.openTable(open(glua.OpenTable)), "string": m.openString(open(glua.OpenString)),
		"math": m.openMath(open(glua.OpenMath)), "os": m.openTime(now), "kube": m.openKube(),
	}
	global.RawSetString("os", modules["os"])
	m.set(global, "require", func(l *glua.LState) int {
		module, ok := modules[l.CheckString(1)]
		if !ok {
			l.RaiseError("module %s not found: available are kube, table, string, math and os", shorten(l.CheckString(1)))
		}
		l.Push(module)
		return 1
	})
}

func (m *meter) set(table *glua.LTable, name string, function glua.LGFunction) {
	table.RawSetString(name, m.state.NewFunction(function))
}

// forbid replaces a function by one that raises an error.
func (m *meter) forbid(table *glua.LTable, name, full string) {
	m.set(table, name, func(l *glua.LState) int {
		l.RaiseError("function %s is not available to customizations", full)
		return 0
	})
}

// wrap replaces a function by one that calls bound first.
func (m *meter) wrap(table *glua.LTable, name string, bound func(l *glua.LState)) {
	original := table.RawGetString(name).(*glua.LFunction).GFunction
	m.set(table, name, func(l *glua.LState) int {
		bound(l)
		return original(l)
	})
}

// check raises an error if the call must end.
func (m *meter) check(ok bool) {
	if !ok {
		m.state.RaiseError("%s", m.err.Error())
	}
}

// pcall calls a function and catches its errors, but not an error that ends the call.
func (m *meter) pcall(l *glua.LState) int {
	l.CheckAny(1)
	if err := l.PCall(l.GetTop()-1, glua.MultRet, nil); err != nil {
		l.SetTop(0)
		l.Push(glua.LFalse)
		l.Push(m.caught(err))
		return 2
	}
	l.Insert(glua.LTrue, 1)
	return l.GetTop()
}

func (m *meter) xpcall(l *glua.LState) int {
	function, handler := l.CheckFunction(1), l.CheckFunction(2)
	l.SetTop(0)
	l.Push(function)
	err := l.PCall(0, glua.MultRet, nil)
	if err == nil {
		l.Insert(glua.LTrue, 1)
		return l.GetTop()
	}
	l.SetTop(0)
	l.Push(handler)
	l.Push(m.caught(err))
	if err := l.PCall(1, 1, nil); err != nil {
		l.SetTop(0)
		l.Push(m.caught(err))
	}
	l.Insert(glua.LFalse, 1)
	return 2
}

// caughtSteps are the steps for a caught error: gopher-lua makes a stack trace for it.
const caughtSteps = 256

// caught returns an error as a value of the script.
func (m *meter) caught(err error) glua.LValue {
	m.check(m.spend(caughtSteps))
	raised, ok := err.(*glua.ApiError) //nolint:errorlint // as gopher-lua's PCall returns it
	if !ok {
		raised = &glua.ApiError{Object: glua.LString(err.Error())}
	}
	text, ok := raised.Object.(glua.LString)
	if !ok {
		return raised.Object
	}
	m.check(m.text(len(text)))
	return glua.LString(m.lines(string(text)))
}

func (m *meter) openTable(module *glua.LTable) *glua.LTable {
	m.set(module, "concat", m.concat)
	m.wrap(module, "insert", func(l *glua.LState) {
		table := l.CheckTable(1)
		n := table.Len()
		at := glua.LNumber(n + 1)
		if l.GetTop() > 2 {
			at = glua.LNumber(l.CheckInt(2))
		}
		if at <= glua.LNumber(n) && at >= 1 {
			m.check(m.charge(elementCost) && m.spend(n/64)) // the later elements move
			return
		}
		m.check(m.chargeSet(table, at))
	})
	m.wrap(module, "remove", func(l *glua.LState) { m.check(m.spend(l.CheckTable(1).Len() / 64)) })
	m.wrap(module, "sort", func(l *glua.LState) {
		table := l.CheckTable(1)
		n := table.Len()
		m.check(m.spend(n))
		each := 64
		for i := 1; i <= n; i++ {
			if text, ok := table.RawGetInt(i).(glua.LString); ok {
				each += len(text) / n
			}
		}
		m.check(m.spend(n * bits.Len(uint(n)) * each / 64))
	})
	return module
}

// concat implements table.concat without the elements on the stack.
func (m *meter) concat(l *glua.LState) int {
	table, separator := l.CheckTable(1), l.OptString(2, "")
	n := table.Len()
	first, last := l.OptInt(3, 1), min(l.OptInt(4, n), n)
	if l.GetTop() == 3 && (first > n || first < 1) {
		last = 0
	}
	first = max(min(first, n), 1)
	var out strings.Builder
	for i := first; i <= last; i++ {
		v := table.RawGetInt(i)
		if !glua.LVCanConvToString(v) {
			l.RaiseError("invalid value (%s) at index %d in table for concat", v.Type().String(), i)
		}
		out.WriteString(glua.LVAsString(v))
		if i < last {
			out.WriteString(separator)
		}
		m.check(m.spend(1))
		if out.Len() > maxString {
			break
		}
	}
	m.check(m.charge(out.Len()) && m.text(out.Len()))
	l.Push(glua.LString(out.String()))
	return 1
}

// openMath replaces the random numbers of the process. Each call has its own generator with the same
// seed, so equal queries have equal answers.
func (m *meter) openMath(module *glua.LTable) *glua.LTable {
	random := rand.New(rand.NewPCG(1, 1))
	m.set(module, "randomseed", func(l *glua.LState) int {
		random = rand.New(rand.NewPCG(uint64(l.CheckInt64(1)), 1))
		return 0
	})
	m.set(module, "random", func(l *glua.LState) int {
		if l.GetTop() == 0 {
			l.Push(glua.LNumber(random.Float64()))
			return 1
		}
		first, last := 1, l.CheckInt(1)
		if l.GetTop() > 1 {
			first, last = last, l.CheckInt(2)
		}
		if last < first || last-first < 0 || last-first+1 <= 0 {
			l.ArgError(l.GetTop(), "interval is empty or too large")
		}
		l.Push(glua.LNumber(first + random.IntN(last-first+1)))
		return 1
	})
	return module
}
