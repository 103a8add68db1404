// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package lua_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

// FuzzScript checks that no script ends the process or exceeds its limits.
func FuzzScript(f *testing.F) {
	for _, chunk := range hostile {
		f.Add(chunk)
	}
	f.Add("return object")
	f.Add("local t = {} for k, v in pairs(object) do t[k] = v end return t")
	f.Add("return {a = ('x'):format(1), b = string.format('%5.2f', 1)}")
	object := thing(f, spec)
	f.Fuzz(func(t *testing.T, chunk string) {
		i, err := lua.New(
			lua.Options{MaxSteps: 30_000, MaxMemory: 4 << 20},
			document("things", "statusReflection", "function ReflectStatus(object)\n"+chunk+"\nend"),
		)
		if err != nil {
			return
		}
		began := time.Now()
		status, err := i.Status(t.Context(), object)
		if err == nil && !json.Valid(status.Raw) {
			t.Errorf("not JSON: %s", status.Raw)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
