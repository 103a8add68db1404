// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSandbox lists all functions that a script can call, and calls those that are not available.
func TestSandbox(t *testing.T) {
	got, err := evaluate(t, `
  local names, unavailable, seen = {}, {}, {}
  local function visit(prefix, t)
    if seen[t] then return end
    seen[t] = true
    for name, value in pairs(t) do
      if type(value) == "table" then
        visit(prefix .. name .. ".", value)
      elseif type(value) == "function" and name ~= "ReflectStatus" then
        local ok, message = pcall(value)
        if not ok and tostring(message):find("not available", 1, true) then
          table.insert(unavailable, prefix .. name)
        else
          table.insert(names, prefix .. name)
        end
      end
    end
  end
  visit("", _G)
  visit("kube.", require("kube"))
  table.sort(names)
  table.sort(unavailable)
  return {names = table.concat(names, " "), unavailable = table.concat(unavailable, " ")}`, thing(t, ""))
	want := `{"names":"` + strings.Join([]string{
		"assert error ipairs kube.accuratePodRequirements kube.getPodDependencies kube.getResourceQuantity kube.resourceAdd",
		"math.abs math.acos math.asin math.atan math.atan2 math.ceil math.cos math.cosh math.deg math.exp math.floor " +
			"math.fmod math.frexp",
		"math.ldexp math.log math.log10 math.max math.min math.mod math.modf math.pow math.rad math.random math.randomseed " +
			"math.sin math.sinh",
		"math.sqrt math.tan math.tanh next os.date os.time pairs pcall print require select string.byte string.char " +
			"string.find string.format",
		"string.gfind string.gmatch string.len string.lower string.match string.reverse string.sub string.upper " +
			"table.concat table.getn",
		"table.insert table.maxn table.remove table.sort tonumber tostring type unpack xpcall",
	}, " ") + `","unavailable":"` + strings.Join([]string{
		"_printregs collectgarbage dofile getfenv getmetatable load loadfile loadstring module newproxy",
		"os.clock os.difftime os.execute os.exit os.getenv os.remove os.rename os.setenv os.setlocale os.tmpname",
		"rawequal rawget rawset setfenv",
		"setmetatable string.dump string.gsub string.rep",
	}, " ") + `"}`
	if d := cmp.Diff(strings.Split(want, " "), strings.Split(got, " ")); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}
