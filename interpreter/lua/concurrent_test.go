// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"sync"
	"testing"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

// TestConcurrentCalls checks that calls are isolated from each other, and never see a partial
// replacement.
func TestConcurrentCalls(t *testing.T) {
	script := func(name string) lua.File {
		return document(
			name,
			"statusReflection",
			"n = 0\nfunction ReflectStatus(object)\n  n = n + object.spec.replicas\n  return {n = n, a = '"+name+"'}\nend",
			"replicaRevision",
			all[7],
		)
	}
	i, err := lua.New(lua.Options{}, script("one"))
	if err != nil {
		t.Fatal(err)
	}
	object := thing(t, spec)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				status, err := i.Status(t.Context(), object)
				if err != nil ||
					string(status.Raw) != `{"a":"one","n":3}` && string(status.Raw) != `{"a":"two","n":3}` {
					t.Errorf("%v %v", status, err)
				}
				if _, err := i.Revise(t.Context(), object, 4); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 5 {
		for _, name := range []string{"two", "one"} {
			if err := i.Set(t.Context(), script(name)); err != nil {
				t.Error(err)
			}
		}
	}
	group.Wait()
}
