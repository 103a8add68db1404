// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

// FuzzPattern compares string.find with gopher-lua's, which has no limits.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{"a*", "^(a+)b", "[^%a-]", "%b()", "(.)%1", "()a()", "a-b", "[]x]", "%d+%.%d*$", "x?$",
		"([%d%.]+)([hms])", "**", "a**", "[a-", "%"} {
		f.Add("aab(1.5h)xx", pattern)
	}
	f.Fuzz(func(t *testing.T, text, pattern string) {
		if len(text) > 16 || len(pattern) > 10 || !utf8.ValidString(text) || !utf8.ValidString(pattern) {
			t.Skip("too long for gopher-lua, or no JSON text")
		}
		comparePatterns(t, text, pattern)
	})
}

// TestPatterns is FuzzPattern with random patterns of special characters.
func TestPatterns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab1-()] .")), 0, 12, -1).Draw(r, "text")
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "b", ".", "%a", "%D", "[ab]", "[^a1]", "[a-c-]", "[]-]", "*", "+", "-", "?", "(", ")", "()", "%1", "%b()", "$",
			"^", "%.", "]", "[%w-_]",
		}), 0, 6).Draw(r, "pattern"), "")
		comparePatterns(r, text, pattern)
	})
}

// patternScript returns the results of the pattern functions as one string. An exclamation mark
// stands for an error.
const patternScript = `
local function show(ok, ...)
  if not ok then return "!" end
  local s = ""
  for i = 1, select("#", ...) do s = s .. tostring((select(i, ...))) .. "," end
  return s
end
local function gmatch(s, p)
  local t = ""
  for a, b in string.gmatch(s, p) do t = t .. tostring(a) .. ":" .. tostring(b) .. ";" end
  return t
end
local text, pattern = object.text, object.pattern
local results = {
  find = show(pcall(string.find, text, pattern)), later = show(pcall(string.find, text, pattern, 3)),
  match = show(pcall(string.match, text .. " ", pattern)), gmatch = show(pcall(gmatch, text, pattern)),
}
if results.match == "" then results.match = "nil," end -- gopher-lua returns nothing
return results`

type reporter interface {
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// comparePatterns compares the results of this package and of gopher-lua. A malformed pattern is
// always an error here. In gopher-lua it fails only if the match reaches the malformed part.
func comparePatterns(t reporter, text, pattern string) {
	function := "function ReflectStatus(object)\n" + patternScript + "\nend"
	i, err := lua.New(lua.Options{}, document("things", "statusReflection", function))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "example.io/v1", "kind": "Thing", "text": text, "pattern": pattern},
	}
	status, err := i.Status(context.Background(), object)
	if err != nil {
		t.Fatal(err)
	}
	var here map[string]string
	if err := json.Unmarshal(status.Raw, &here); err != nil {
		t.Fatal(err)
	}
	l := glua.NewState()
	defer l.Close()
	if err := l.DoString(function); err != nil {
		t.Fatal(err)
	}
	argument := l.NewTable()
	argument.RawSetString("text", glua.LString(text))
	argument.RawSetString("pattern", glua.LString(pattern))
	if err := l.CallByParam(glua.P{Fn: l.GetGlobal("ReflectStatus"), NRet: 1, Protect: true}, argument); err != nil {
		t.Fatal(err)
	}
	l.Get(-1).(*glua.LTable).ForEach(func(name, result glua.LValue) {
		// A part of a character becomes another character in JSON.
		if got, want := here[name.String()], string([]rune(result.String())); got != want && got != "!" {
			t.Errorf("%s of %q in %q: got %s, want %s", name, pattern, text, got, want)
		}
	})
}
