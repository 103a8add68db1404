// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package lua_test

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

// hostile are scripts that need too much time or memory. Each script ends at a limit, or returns a
// small answer.
var hostile = map[string]string{
	// Steps.
	"loop":                 "while true do end",
	"loop of a number":     "for i = 1, 1e18 do end",
	"loop without step":    "for i = 1, 2, 0 do end",
	"goto":                 "::again:: goto again",
	"caught":               "while true do pcall(function() while true do end end) end",
	"caught by a handler":  "while true do xpcall(function() while true do end end, function() while true do end end) end",
	"caught errors":        "while true do pcall(error, {}) end",
	"caught at the end":    "return pcall(function() while true do end end)",
	"iterator":             "for x in function() return 1 end do end",
	"comparison":           "local t = {3, 1, 2} table.sort(t, function(a, b) while true do end end)",
	"replaced basics":      "pcall, error, tostring = nil, nil, nil string.find = nil while true do end",
	"many errors in depth": "local function f(n) while true do if n > 0 then f(n - 1) end pcall(error, 'x') end end f(100)",
	// Recursion.
	"recursion":           "local function f(n) return 1 + f(n + 1) end f(1)",
	"tail recursion":      "local function f(n) return f(n + 1) end f(1)",
	"recursion in pcall":  "local function f() return pcall(f) end f()",
	"recursion in xpcall": "local function f() return xpcall(f, f) end f()",
	"recursion in sort":   "local function f() table.sort({1, 2, 3}, f) end f()",
	"recursion, caught":   "local function f() pcall(f) pcall(f) end f()",
	"recursion of handlers": "local function f() error(f) end local function h() return select(2, xpcall(f, h)) end " +
		"return h()",
	"variable arguments": "local function f(...) return f(1, ...) end f()",
	// Strings.
	"doubled string": "local s = 'x' while true do s = s .. s end",
	"doubled in one": "local s = ('x'):upper() while true do s = s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. " +
		"s .. s .. s .. s end",
	"longer string": "local s = '' while true do s = s .. " +
		"'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' end",
	"kept strings": "local t, s = {}, 'x' while #s < 400000 do s = s .. s end for i = 1, 1e6 do t[i] = s .. i end",
	"concat": "local t, s = {}, 'x' while #s < 400000 do s = s .. s end for i = 1, 1000 do t[i] = s end " +
		"return {table.concat(t)}",
	"concat separators": "local t, s = {}, 'x' while #s < 400000 do s = s .. s end for i = 1, 1000 do t[i] = 1 end " +
		"return {table.concat(t, s)}",
	"format width":  "return {string.format('%999999999d', 1)}",
	"format widths": "local f = '%99d' while #f < 500000 do f = f .. f end while true do string.format(f, 1) end",
	"format strings": "local s, t = 'x', {} while #s < 400000 do s = s .. s end while true do t[#t + 1] = " +
		"string.format('%s%q', s, s) end",
	"format index":      "return {string.format('%[1]s%[1]s', 'x')}",
	"format star":       "return {string.format('%*d', 1000000, 1)}",
	"format of a cycle": "local t = {} t.t = t return {string.format('%d', t)}",
	"upper": "local s, t = 'x', {} while #s < 400000 do s = s .. s end while true do t[#t + 1] = " +
		"s:upper() end",
	"reverse": "local s, t = 'x', {} while #s < 400000 do s = s .. s end while true do t[#t + 1] = " +
		"s:reverse() end",
	"dates": "local s, t = '%A', {} while #s < 20000 do s = s .. s end while true do t[#t + 1] = " +
		"os.date(s) end",
	"bytes": "local s = 'x' while #s < 400000 do s = s .. s end while true do s:byte(1, -1) end",
	"error messages": "local s, t = 'x', {} while #s < 400000 do s = s .. s end while true do local _, e = " +
		"pcall(function() return (nil)[s] end) t[#t + 1] = e end",
	"error values": "local s, t = 'x', {} while #s < 400000 do s = s .. s end while true do local _, e = " +
		"pcall(error, s) t[#t + 1] = e end",
	"long error":  "local s = 'x' while #s < 400000 do s = s .. s end error(s)",
	"metamethods": "string.__concat = function() return ('x'):upper() end string.__index = nil return {('x') .. {}}",
	"long keys":   "local s, t = 'x', {} while #s < 400000 do s = s .. s end for i = 1, 1e6 do t[s .. i] = i end",
	"equal long strings": "local s = 'x' while #s < 400000 do s = s .. s end local a, b = s .. 'a', s .. 'b' while " +
		"true do if a < b then a, b = b, a end end",
	"sorted long strings": "local s, t = 'x', {} while #s < 400000 do s = s .. s end for i = 1, 10000 do t[i] = s end " +
		"table.sort(t)",
	// Patterns.
	"optional items": "return {string.find(('a'):upper():lower() .. 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', " +
		"'a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab')}",
	"repeated items": "local s = 'a' while #s < 100000 do s = s .. s end return {s:find('.-.-.-.-.-.-.-b')}",
	"greedy items":   "local s = 'a' while #s < 100000 do s = s .. s end return {s:match('.*.*.*.*.*.*b')}",
	"balance":        "local s = '(' while #s < 400000 do s = s .. s end return {s:find('%b()')}",
	"references":     "local s = 'a' while #s < 400000 do s = s .. s end return {s:find('^(.-)%1%1%1b')}",
	"long pattern":   "local s = 'a?' while #s < 400000 do s = s .. s end return {s:find(s)}",
	"deep pattern":   "local s = '(a' while #s < 4000 do s = s .. s end return {s:find(s)}",
	"many matches":   "local s, t = 'a', {} while #s < 400000 do s = s .. s end for m in s:gmatch('()') do t[#t + 1] = m end",
	"many iterators": "local s, t = 'a', {} while true do t[#t + 1] = s:gmatch('((((((((a))))))))') end",
	// Tables.
	"far element":          "local t = {} t[60000000] = 1",
	"far elements":         "local t = {} for i = 1, 100 do t[i] = {} t[i][1000000] = 1 end",
	"far in a constructor": "local t = {[67108863] = 1}",
	"far with nil":         "local t = {} t[50000000] = nil",
	"far insert":           "local t = {} table.insert(t, 60000000, 1)",
	"elements":             "local t = {} while true do t[#t + 1] = 1 end",
	"inserted":             "local t = {} while true do table.insert(t, 1, 1) end",
	"appended":             "local t = {} while true do table.insert(t, 1) end",
	"removed": "local t = {} for i = 1, 200000 do t[i] = i end while true do table.insert(t, " +
		"table.remove(t, 1)) end",
	"tables":               "local t = {} while true do t[#t + 1] = {} end",
	"tables with members":  "local t = {} while true do t[#t + 1] = {a = 1} end",
	"tables with one":      "local t = {} while true do local x = {} x.a = 1 t[#t + 1] = x end",
	"tables with elements": "local t = {} while true do t[#t + 1] = {1} end",
	"tables with many": "local t = {} while true do t[#t + 1] = " +
		"{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1} end",
	"tables with both": "local t = {} while true do t[#t + 1] = {a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h " +
		"= 8, i = 9, 1, 2, 3} end",
	"linked tables":      "local t while true do t = {t} end",
	"members":            "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
	"members of numbers": "local t = {} for i = 1, 1e9 do t[i + 0.5] = i end",
	"members of tables":  "local t = {} while true do t[{}] = true end",
	"members after many": "local l = {} while true do local t = {} for i = 1, 100 do t['k' .. i] = 1 end t[true] = 1 " +
		"l[#l + 1] = t end",
	"removed members": "local t = {} for i = 1, 1e9 do t['k' .. i] = i t['k' .. i] = nil end",
	"nil members":     "local l = {} while true do local t = {} t.a = nil l[#l + 1] = t end",
	"globals":         "for i = 1, 1e9 do _G['k' .. i] = i end",
	"numbers":         "local t, n = {}, 0.5 while true do n = n + 1 t[#t + 1] = n end",
	"copied arguments": "local l, t = {}, {} for i = 1, 7000 do t[i] = i end local function f(...) while true do " +
		"l[#l + 1] = {...} end end f(unpack(t))",
	"old arguments": "local l, t = {}, {} for i = 1, 7000 do t[i] = i end local function f(...) return arg end " +
		"while true do l[#l + 1] = f(unpack(t)) end",
	"unpacked":            "unpack({}, 1, 1e9)",
	"unpacked to the end": "while true do pcall(unpack, {}, -1e15, 1e15) end",
	"nil at the end": "local t = {} for i = 1, 300000 do t[i] = i end for i = 300000, 1, -1 do t[i] = nil end " +
		"while true do local n = #t end",
	"skipped by next": "local t = {} for i = 1, 100000 do t[i] = i end for i = 1, 99999 do t[i] = nil end while " +
		"true do next(t) end",
	"functions": "local f while true do local g = f f = function() return g end end",
	"functions in a table": "local t = {} while true do local a, b, c, d = 1, 2, 3, 4 t[#t + 1] = function() return a, " +
		"b, c, d end end",
	// Results.
	"deep result":     "local t = {} for i = 1, 100000 do t = {t} end return t",
	"doubled result":  "local t = {1} for i = 1, 60 do t = {t, t} end return t",
	"doubled members": "local t = {x = 1} for i = 1, 60 do t = {a = t, b = t} end return t",
	"large result":    "local t, s = {}, 'x' while #s < 400000 do s = s .. s end for i = 1, 1000 do t[i] = s end return t",
	"pods": "local t = {} for i = 1, 5000 do t[i] = {} t[i].name = 'x' end while true do " +
		"require('kube').accuratePodRequirements({spec = {containers = t}}) end",
	"quantities": "while true do require('kube').resourceAdd('999999999999999999999999e999', '1n') end",
}

// TestHostileScripts measures the memory and the time of each script with the default limits.
func TestHostileScripts(t *testing.T) {
	const (
		// memory limits the growth of the heap: the limit of a script, plus garbage that is not
		// collected yet.
		memory = 64<<20 + 48<<20
		// longest is three times Options.Timeout, because other tests use the processors too.
		longest = 3 * time.Second
	)
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	for name, chunk := range hostile {
		t.Run(name, func(t *testing.T) {
			i, err := lua.New(
				lua.Options{},
				document("things", "statusReflection", "function ReflectStatus(object)\n"+chunk+"\nend"),
			)
			if err != nil {
				t.Fatal(err)
			}
			object := thing(t, spec)
			began := time.Now()
			var answered bool
			peak := peakHeap(func() {
				status, err := i.Status(t.Context(), object)
				answered = err == nil
				if err != nil && len(err.Error()) > 2000 {
					t.Errorf("an error with %d bytes", len(err.Error()))
				}
				if answered && len(status.Raw) > 4096 {
					t.Errorf("an answer with %d bytes", len(status.Raw))
				}
				if strings.HasPrefix(name, "recursion") && answered {
					t.Log("recursion ended with an answer")
				}
				t.Logf("%.120v", err)
			})
			took := time.Since(began)
			t.Logf("%d MiB, %v", peak>>20, took.Round(time.Millisecond))
			if peak > memory {
				t.Errorf("the heap grew by %d MiB", peak>>20)
			}
			if took > longest {
				t.Errorf("took %v", took)
			}
		})
	}
}

// peakHeap returns the number of bytes by which the heap grows while a function runs.
func peakHeap(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	size := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64() + sample[1].Value.Uint64()
	}
	before := size()
	done, peaks := make(chan struct{}), make(chan uint64)
	go func() {
		ticker := time.NewTicker(200 * time.Microsecond)
		defer ticker.Stop()
		peak := before
		for {
			peak = max(peak, size())
			select {
			case <-done:
				peaks <- peak
				return
			case <-ticker.C:
			}
		}
	}()
	f()
	last := size()
	close(done)
	return max(<-peaks, last) - before
}

// TestRandomPrograms measures programs of random statements that allocate, in nested loops.
func TestRandomPrograms(t *testing.T) {
	const limit = 8 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	statement := rapid.SampledFrom([]string{
		"t[#t + 1] = {}", "t[#t + 1] = {a = n}", "t[#t + 1] = {n, n}", "t[n] = t", "t['k' .. n] = n", "t[n + 0.5] = s",
		"t = {t}",
		"s = s .. 'x' .. n", "s = s .. s", "t[#t + 1] = s .. n", "t[#t + 1] = s:upper()", "t[#t + 1] = ('%5d'):format(n)",
		"n = n * 3",
		"f = function() return t, f end", "t[#t + 1] = f", "f(f)", "t[#t + 1] = arguments(n, n, t)",
		"t[#t + 1] = {varied(n, s, t)}",
		"pcall(f, t)", "pcall(error, s)", "local _, e = pcall(error, s) t[#t + 1] = e", "table.insert(t, 1, s)",
		"table.sort({3, 1, n})",
		"t = {}", "s = 'x'", "for k, v in pairs(object.spec) do t[#t + 1] = {k, v} end",
		"t[#t + 1] = table.concat({s, n}, s)",
		"for m in s:gmatch('.') do t[#t + 1] = m end", "n = #t", "t[t] = true", "_G['g' .. n] = t", "t[{}] = {}",
		"t[60000 + n % 7] = n",
	})
	rapid.Check(t, func(r *rapid.T) {
		body := strings.Join(rapid.SliceOfN(statement, 1, 6).Draw(r, "body"), "\n")
		inner := strings.Join(rapid.SliceOfN(statement, 0, 3).Draw(r, "inner"), "\n")
		chunk := "local t, s, n, f = {}, 'x', 1, print\nlocal function arguments(...) return arg end\nlocal function " +
			"varied(...) return ... end\n" +
			"while true do\nn = n + 1\n" + body + "\nfor i = 1, 20 do\n" + inner + "\nend\nend"
		i, err := lua.New(lua.Options{MaxMemory: limit, MaxSteps: 100_000, Timeout: 10 * time.Second},
			document("things", "statusReflection", "function ReflectStatus(object)\n"+chunk+"\nend"))
		if err != nil {
			r.Fatal(err)
		}
		object := thing(t, spec)
		peak := peakHeap(func() { _, err = i.Status(t.Context(), object) })
		if err == nil {
			r.Error("no error")
		}
		if peak > 3*limit {
			r.Errorf("the heap grew by %d MiB: %v\n%s", peak>>20, err, chunk)
		}
	})
}

// TestHostileSources measures the compiler.
func TestHostileSources(t *testing.T) {
	const length = 60_000 // a script has at most 64 KiB
	rep := func(s string) string { return strings.Repeat(s, length/len(s)) }
	for name, source := range map[string]string{
		"parentheses": "return " + rep("(") + "1", "closed parentheses": "return " + rep("(")[:length/2] + "1" +
			rep(")")[:length/2],
		"tables": "return " + rep("{")[:length/2] + rep("}")[:length/2], "not": "return " + rep("not ") + "1",
		"minus": "return " + rep("- ") + "1",
		"sum":   "return 1" + rep("+1"), "concat": "return a" + rep("..a"), "power": "return 1" + rep("^1"),
		"and": "return 1" +
			rep(" and 1"),
		"index": "return a" + rep(".a"), "calls": "return a" + rep("()"), "functions": rep("return function() "),
		"closed functions": rep("local f = function() ")[:length/21*10] + rep("end ")[:length/21/2*4],
		"blocks":           rep("do ")[:length/9*3] + rep("end ")[:length/9*4],
		"ifs":              rep("if a then "), "else": "if a then " + rep("elseif a then ") + "end",
		"locals": rep("local a = 1 "),
		"names":  "local a" + rep(", a") + " = 1", "elements": "return {" + rep("1,") + "}", "numbers": "return {" +
			rep("1.5,") + "}",
		"assignments": rep("a = b "), "arguments": "f(" + rep("1,") + "1)", "text": "return '" + rep("x") + "'",
		"comment":       "--[[" + rep("x"),
		"long brackets": "return [" + rep("="), "gotos": rep("goto a "), "labels": rep("::a:: "), "bytes": rep("\x01\x7f"),
		"sum of a variable": "return a" + rep("+1")[:length/4], "minus of a variable": "return " + rep("- ")[:length/2] + "a",
		"many sums": rep("a = a" + strings.Repeat("+1", 199) + " "),
		"upvalues":  "local a = 1 " + rep("local function f() a = a "), "several assignments": rep("a,")[:length/2] + "a = " +
			rep("b,")[:length/2] + "b",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var err error
			peak := peakHeap(func() {
				_, err = lua.New(lua.Options{}, document("things", "statusReflection", source))
			})
			t.Logf("%d MiB, %v, %.150v", peak>>20, time.Since(began).Round(time.Millisecond), err)
			if err == nil {
				t.Error("no error")
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if peak > 160<<20 { // the stack of the compiler is larger with the race detector
				t.Errorf("the heap grew by %d MiB", peak>>20)
			}
		})
	}
}
