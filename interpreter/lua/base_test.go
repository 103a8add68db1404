// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"encoding/json"
	"testing"

	glua "github.com/yuin/gopher-lua"
)

// TestLibrariesMatchGopherLua compares this package's replacements of gopher-lua functions with the originals.
func TestLibrariesMatchGopherLua(t *testing.T) {
	for _, expression := range []string{
		`string.format("%d %5d|%-5d|%05d %i", 1, 2, 3, 4, 5)`, `string.format("%s %5s|%-5s|%.2s", "a", "b", "c", "defg")`,
		`string.format("%x %X %o %c %#x", 255, 255, 8, 65, 16)`,
		`string.format("%f %.2f %8.3f|%e %g %G", 1.5, 1.005, 2.5, 12345.678, 0.1, 1e20)`,
		`string.format("%q", "a\"b\nc")`, `string.format("100%%")`, `string.format("%s %s %s", true, nil, 1.5)`,
		`string.format("%d", 3.7)`,
		`string.format("%5.1f|%+d|% d", 1.25, 3, 4)`, `string.format("%x", "abc")`, `string.format("%d", "12")`,
		`string.format("x")`,
		`("abc"):byte()`, `("abc"):byte(2)`, `("abc"):byte(-1)`, `select("#", ("abc"):byte(1, -1))`, `string.char(72, 105)`,
		`#string.char()`,
		`("Hi é"):upper()`, `("Hi É"):lower()`, `("abc"):reverse()`, `("abc"):len()`, `("hello"):sub(2, 3)`,
		`("hello"):sub(-3)`, `("hello"):sub(4, 2)`,
		`("hello"):sub(0)`, `("hello"):sub(2, 100)`, `("a.b"):find(".", 1, true)`, `("a.b"):find("")`,
		`("a.b"):find("b", -1)`, `("abc"):find("b", 10)`,
		`table.concat({1, 2, 3}, ", ")`, `table.concat({1, 2, 3}, ", ", 2)`, `table.concat({1, 2, 3}, ", ", 2, 2)`,
		`table.concat({})`,
		`table.concat({1, 2, 3}, "", 4)`, `table.concat({"a", 1.5}, "-", 1, 10)`, `table.concat({1}, "x", 0)`,
		`table.concat({1, 2}, "x", 0, 1)`,
		`pcall(error)`, `pcall(error, "x", 0)`, `select("#", pcall(error, nil))`, `select(2, pcall(error, {1}))[1]`,
		`pcall(function(...) return ... end, 1, 2)`,
		`xpcall(function() return 1, 2 end, print)`,
		`select(2, xpcall(function() error("x", 0) end, function(m) return m .. "!" end))`,
		`pcall(pcall, error, "x", 0)`, `select("#", pcall(function() end))`,
		`(function() local t = {3, 1, 2} table.sort(t) return table.concat(t) end)()`,
		`(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t) end)()`,
		`(function() local t = {1, 2} table.insert(t, 1, 0) table.insert(t, 9) table.insert(t, 4, 7) return table.concat(t, ",") .. #t end)()`,
		`(function() local t = {1, 2, 3} return table.remove(t, 1) .. table.remove(t) .. #t .. tostring(table.remove({})) end)()`,
		`table.getn({1, 2})`, `table.maxn({1, 2})`, `math.floor(-1.5)`, `math.max(1, 3, 2)`, `math.huge > 1`,
		`10 % 3 .. "|" .. 2 ^ 10 .. "|" .. 7 / 2`,
		`tonumber("0x10")`, `tonumber("ff", 16)`, `tonumber("1e3")`, `tonumber("x")`, `tostring(1e15)`, `tostring(1e100)`,
		`tostring(-0.0)`, `type(nil)`,
		`unpack({1, 2, 3}, 2)`, `select(-1, 1, 2, 3)`, `next({})`, `next({5})`, `#{1, 2, nil, 4}`, `"10" + 5`, `"a" < "b"`,
		`not nil`, `1 == "1"`,
	} {
		function := "function ReflectStatus()\n  local a, b, c = " + expression +
			"\n  return {a = tostring(a), b = tostring(b), c = tostring(c)}\nend"
		status, err := load(t, "statusReflection", function).Status(t.Context(), thing(t, ""))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		var here map[string]string
		if err := json.Unmarshal(status.Raw, &here); err != nil {
			t.Fatal(err)
		}
		l := glua.NewState()
		if err := l.DoString(function); err != nil {
			t.Fatal(err)
		}
		if err := l.CallByParam(glua.P{Fn: l.GetGlobal("ReflectStatus"), NRet: 1, Protect: true}); err != nil {
			t.Errorf("%s: gopher-lua: %v", expression, err)
			continue
		}
		l.Get(-1).(*glua.LTable).ForEach(func(name, result glua.LValue) {
			if got, want := here[name.String()], result.String(); got != want {
				t.Errorf("%s: %s: got %s, want %s", expression, name, got, want)
			}
		})
		l.Close()
	}
}
