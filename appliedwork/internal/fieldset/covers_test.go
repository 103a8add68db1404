// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset_test

import (
	"encoding/json"
	"testing"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
)

// TestManagedFieldsCoverManifest checks whether a set of managed fields has each field of a
// manifest. The sets are in the form of a real API server.
func TestManagedFieldsCoverManifest(t *testing.T) {
	tests := []struct {
		name, reason            string
		fields, manifest, after string
		want                    bool
	}{
		{"all ours", "no other manager has changed it", `{"f:data":{".":{},"f:a":{}}}`, `{"data":{"a":"1"}}`,
			`{"data":{"a":"1"}}`, true},
		{"taken over", "a changed value is the other's", `{"f:data":{}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`, false},
		{"one of two", "the other is ours still", `{"f:data":{".":{},"f:a":{}}}`, `{"data":{"a":"1","b":"1"}}`,
			`{"data":{"a":"1","b":"2"}}`, false},
		{"as a whole", "an atomic map is a leaf", `{"f:spec":{"f:selector":{}}}`, `{"spec":{"selector":{"app":"x"}}}`,
			`{"spec":{"selector":{"app":"x"}}}`, true},
		{"as a whole, defaulted", "the server may add", `{"f:spec":{"f:rule":{}}}`, `{"spec":{"rule":{"a":1}}}`,
			`{"spec":{"rule":{"a":1,"b":2}}}`, true},
		{"list by key", "protocol has a default, and is part of the key",
			`{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}}}`,
			`{"ports":[{"port":80,"name":"web"}]}`, `{"ports":[{"port":80,"protocol":"TCP","name":"web"}]}`, true},
		{"list by key, item taken", "the item is gone", `{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{}}}}`,
			`{"ports":[{"port":80}]}`, `{"ports":[]}`, false},
		{"list by key, field taken", "the item is ours, its image is not",
			`{"f:c":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}}}`, `{"c":[{"name":"x","image":"1"}]}`,
			`{"c":[{"name":"x","image":"2"}]}`, false},
		{"list by value", "a set", `{"f:finalizers":{".":{},"v:\"a\"":{}}}`, `{"finalizers":["a"]}`,
			`{"finalizers":["a","b"]}`, true},
		{"list by value, taken", "one is missing", `{"f:finalizers":{".":{},"v:\"b\"":{}}}`, `{"finalizers":["a"]}`,
			`{"finalizers":["b"]}`, false},
		{"atomic list", "the same", `{"f:args":{}}`, `{"args":["a","b"]}`, `{"args":["a","b"]}`, true},
		{"atomic list, other", "another writer's list", `{"f:args":{}}`, `{"args":["a","b"]}`, `{"args":["a"]}`, false},
		{"key twice", "a create may have it twice, and the set has it once", `{"f:env":{"k:{\"name\":\"A\"}":{}}}`,
			`{"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}`,
			`{"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}`, true},
		{"key twice, one taken", "the second has another value", `{"f:env":{"k:{\"name\":\"A\"}":{}}}`,
			`{"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}`,
			`{"env":[{"name":"A","value":"1"},{"name":"A","value":"3"}]}`, false},
		{"null", "is no field", `{}`, `{"a":null}`, `{}`, true},
		{"empty", "nothing to manage", `{}`, `{"a":{},"b":[]}`, `{}`, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var decoded [3]map[string]any
			for i, text := range []string{test.fields, test.manifest, test.after} {
				if err := json.Unmarshal([]byte(text), &decoded[i]); err != nil {
					t.Fatal(err)
				}
			}
			if got := fieldset.Covers(decoded[0], decoded[1], decoded[2]); got != test.want {
				t.Errorf("%v, want %v: %s", got, test.want, test.reason)
			}
		})
	}
}

// FuzzCovers checks that Covers does not panic for any managed fields and manifest.
func FuzzCovers(f *testing.F) {
	f.Add(`{"f:a":{"k:{\"x\":1}":{}}}`, `{"a":[{"x":1}]}`, `{"a":[{"x":1}]}`)
	f.Add(`{"f:a":{"v:1":{}}}`, `{"a":[1,"b",null]}`, `{}`)
	f.Fuzz(func(_ *testing.T, fields, manifest, live string) {
		var a, b, c map[string]any
		_, _, _ = json.Unmarshal([]byte(fields), &a), json.Unmarshal([]byte(manifest), &b), json.Unmarshal([]byte(live), &c)
		fieldset.Covers(a, b, c)
	})
}
